//! What goes on in somebody's name, by the policy of then and of now.

use super::Recorded;
use crate::access::{Access, Credentials};
use crate::denial::Denial;
use crate::matrix::row;
use crate::policy::Policy;
use crate::principal::{Principal, PrincipalKind};
use crate::token::StaticToken;
use alloc::format;
use alloc::sync::Arc;
use escapement_model::Namespace;

const HEAD: &str = "version = 1\n[[namespace]]\nname = \"billing\"\n[[namespace]]\nname = \"agents\"\n";

fn access(entry: &str) -> (Access, Arc<Principal>) {
    let token = StaticToken::from_random([7; 32]);
    let digest = escapement_model::hex::text(&token.sha256());
    let text = format!("{HEAD}[[token]]\nname = \"ada\"\nsha256 = \"{digest}\"\n{entry}");
    let access = Access::new(Policy::parse(&text).unwrap());
    let shown = format!("Bearer {}", token.secret());
    let credentials = Credentials {
        authorization: Some(shown.as_bytes()),
        certificate: None,
    };
    let principal = access.authenticate(credentials, 0).unwrap();
    (access, principal)
}

fn named(name: &str) -> Namespace {
    Namespace::parse(name).unwrap()
}

fn ada(kind: PrincipalKind) -> Recorded<'static> {
    Recorded {
        kind,
        name: "ada",
        issuer: "",
    }
}

#[test]
fn what_a_token_began_goes_on_as_far_as_the_policy_says_now() {
    let entry = "roles = [\"submitter\"]\nnamespaces = [\"billing\"]\nactions = [\"pay.*\", \"mail\"]\n";
    let (access, _) = access(entry);
    let may = |namespace: &str, action: &str| {
        access.still_permits(ada(PrincipalKind::Token), &named(namespace), action)
    };
    assert!(may("billing", "pay.out") && may("billing", "mail"));
    assert!(!may("billing", "mails") && !may("agents", "pay.out") && !may("default", "mail"));
    let of = |recorded| access.still_permits(recorded, &named("billing"), "mail");
    assert!(!of(Recorded {
        name: "eve",
        ..ada(PrincipalKind::Token)
    }));
    // A certificate of the same name is somebody else, and who proved nothing has no entry.
    assert!(!of(ada(PrincipalKind::Certificate)) && !of(ada(PrincipalKind::Attempt)));
    assert!(of(ada(PrincipalKind::Anonymous)));
    assert!(Access::without_policy().still_permits(ada(PrincipalKind::Jwt), &named("billing"), "x"));
}

#[test]
fn what_a_certificate_began_is_asked_for_by_its_name() {
    let text = format!(
        "{HEAD}[[certificate]]\nspiffe = \"spiffe://prod/ns/agents/*\"\nroles = [\"submitter\"]\n\
         namespaces = [\"agents\"]\nactions = [\"look\"]\n"
    );
    let access = Access::new(Policy::parse(&text).unwrap());
    let may = |name: &str, action: &str| {
        let recorded = Recorded {
            kind: PrincipalKind::Certificate,
            name,
            issuer: "",
        };
        access.still_permits(recorded, &named("agents"), action)
    };
    assert!(may("spiffe://prod/ns/agents/planner", "look"));
    assert!(!may("spiffe://prod/ns/agents/planner", "touch"));
    assert!(!may("spiffe://prod/ns/others/planner", "look"));
}

#[test]
fn patterns_are_recorded_unless_they_name_everything() {
    let (_, some) =
        access("roles = [\"submitter\"]\nnamespaces = [\"billing\"]\nactions = [\"pay.*\", \"mail\"]\n");
    assert_eq!(
        some.submitted_actions(&named("billing")).unwrap(),
        ["mail", "pay.*"]
    );
    assert!(some.submitted_actions(&named("agents")).unwrap().is_empty());
    let (_, all) = access("roles = [\"submitter\"]\n");
    assert_eq!(all.submitted_actions(&Namespace::default()), None);
    let (_, admin) = access("roles = [\"admin\"]\nactions = [\"pay.*\"]\n");
    assert_eq!(admin.submitted_actions(&named("agents")), None);
}

#[test]
fn a_role_counts_in_its_namespaces_alone() {
    let (_, viewer) = access("roles = [\"viewer\"]\nnamespaces = [\"billing\"]\n");
    let reads = row("/escapement.runs.v1.RunService/GetRun").unwrap();
    let pauses = row("/escapement.runs.v1.RunService/PauseRun").unwrap();
    assert!(viewer.permits_within(&reads, &named("billing")));
    assert!(!viewer.permits_within(&reads, &named("agents")));
    assert!(!viewer.permits_within(&pauses, &named("billing")));
    let (_, operator) = access("roles = [\"operator\"]\n");
    let exports = row("/escapement.runs.v1.RunService/ExportRun").unwrap();
    assert!(operator.permits_within(&pauses, &named("agents")));
    assert!(!operator.permits_within(&exports, &named("agents")));
}

#[test]
fn a_user_is_the_one_who_calls_unless_the_policy_lets_it_name_another() {
    let refused = Err(Denial::UserNotPermitted { field: "user_id" });
    let (_, plain) = access("roles = [\"submitter\"]\n");
    assert_eq!(plain.user("user_id", ""), Ok(Some("ada")));
    assert_eq!(plain.user("user_id", "ada"), Ok(Some("ada")));
    assert_eq!(plain.user("user_id", "eve"), refused);
    assert_eq!(plain.own_users(), None);

    let (_, own) = access("roles = [\"submitter\"]\nuser = true\n");
    assert_eq!(own.user("user_id", ""), Ok(Some("ada")));
    assert_eq!(own.user("user_id", "eve"), refused);
    assert_eq!(own.own_users(), Some(["ada"].into()));

    let (_, other) = access("roles = [\"submitter\"]\nuser = \"lovelace\"\n");
    assert_eq!(other.user("user_id", ""), Ok(Some("lovelace")));
    assert_eq!(other.user("user_id", "eve"), refused);
    assert_eq!(other.own_users(), Some(["lovelace"].into()));

    let (_, any) = access("roles = [\"submitter\"]\nuser = \"*\"\n");
    assert_eq!(any.user("user_id", ""), Ok(None));
    assert_eq!(any.user("user_id", "eve"), Ok(Some("eve")));
    assert_eq!(any.own_users(), None);

    let anonymous = Principal::without_policy();
    assert_eq!(anonymous.user("user_id", "eve"), Ok(Some("eve")));
    assert_eq!(
        (anonymous.user("user_id", ""), anonymous.own_users()),
        (Ok(None), None)
    );
    let (_, admin) = access("roles = [\"admin\"]\nuser = true\n");
    assert_eq!(
        (admin.user("user_id", "eve"), admin.own_users()),
        (Ok(Some("eve")), None)
    );
}

#[test]
fn a_user_of_the_policy_is_true_or_a_name() {
    let digest = "0".repeat(64);
    let parse = |user: &str| {
        let entry =
            format!("[[token]]\nname = \"a\"\nsha256 = \"{digest}\"\nroles = [\"viewer\"]\nuser = {user}\n");
        Policy::parse(&format!("{HEAD}{entry}"))
    };
    assert!(parse("true").is_ok() && parse("false").is_ok() && parse("\"x\"").is_ok());
    assert!(parse("\"\"").is_err() && parse("7").is_err() && parse("[\"x\"]").is_err());
}
