//! Policies as anybody may write them: refused with the lines of what is wrong, or read whole, and twice alike.

use crate::source::Source;
use escapement_access::{Access, Credentials, Denial, Policy};

/// The input is the text; its first byte says how much of it is put behind a text that is right.
pub(crate) fn run(input: &[u8]) {
    let mut source = Source::new(input);
    let before = source.pick(&["", HEAD, WHOLE]);
    let text = before.to_owned() + &String::from_utf8_lossy(source.rest());
    match Policy::parse(&text) {
        Err(violations) => {
            assert!(!violations.is_empty(), "what is refused is refused for a reason");
            let n_lines = text.split('\n').count();
            for violation in &violations {
                assert!(
                    (1..=n_lines).contains(&violation.line),
                    "{violation} of {n_lines} lines"
                );
            }
            assert!(violations.is_sorted_by_key(|violation| violation.line));
            assert_eq!(Policy::parse(&text), Err(violations));
        }
        Ok(policy) => {
            assert_eq!(Policy::parse(&text).as_ref(), Ok(&policy), "read twice alike");
            judge(&Access::new(policy));
        }
    }
}

/// Who shows nothing gets what the policy gives to such and nothing else, and a stranger gets nothing.
fn judge(access: &Access) {
    let nobody = access
        .authenticate(Credentials::default(), 0)
        .expect("nothing that is shown is nothing that is wrong");
    let denied = access.permit(&nobody, "/escapement.v1.FleetService/NoSuchCall");
    assert_eq!(denied, Err(Denial::UnknownCall));
    let stranger = Credentials {
        authorization: Some(b"Bearer eyJhbGciOiJub25lIn0.e30."),
        ..Credentials::default()
    };
    assert_eq!(access.authenticate(stranger, 0), Err(Denial::CredentialsInvalid));
}

const HEAD: &str = "version = 1\n";

const WHOLE: &str = r#"version = 1
anonymous_reflection = false
[anonymous]
roles = ["viewer"]
[[namespace]]
name = "billing"
weight = 4
[[token]]
name = "planner"
sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
expires = 2027-06-30T00:00:00Z
roles = ["submitter"]
namespaces = ["billing"]
actions = ["billing.*"]
worker_ids = ["w-*"]
max_in_flight = 64
agent = true
[[jwt]]
issuer = "https://issuer.example"
audience = "escapement"
jwks_url = "https://issuer.example/keys"
algorithms = ["ES256", "RS256"]
leeway_ms = 0
[[jwt.grant]]
when = { sub = "a", realm_access.roles = "b", "kubernetes.io".pod = true }
roles = ["operator"]
payloads = true
[[certificate]]
spiffe = "spiffe://prod.example/ns/agents/sa/worker-*"
roles = ["worker"]
[[certificate]]
dns = "*.planners.example"
roles = ["viewer"]
namespaces = ["*"]
"#;

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut all = vec![vec![0], vec![1], vec![2], [vec![0], WHOLE.into()].concat()];
    // Each section of its own, and what is wrong in many ways.
    for section in WHOLE.split("[[").skip(1) {
        all.push([vec![1], b"[[".to_vec(), section.into()].concat());
    }
    for wrong in [
        "a = 1\n",
        "version = 2",
        "[[token]",
        "[[jwt]]\nissuer = \"a\"\njwks_url = \"http://a\"\n",
        "[[certificate]]\nspiffe = \"spiffe://*/x\"\nroles = [\"king\"]\n",
        "[[namespace]]\nname = \"billing\"\n",
        "a.a.a.a.a.a.a.a = { b.b.b.b = [[[[[[1]]]]]] }\n",
    ] {
        all.push([vec![1], wrong.into()].concat());
    }
    all
}
