//! What goes on in somebody's name, by the policy of then and of now.

use super::Recorded;
use crate::access::{Access, Credentials};
use crate::denial::Denial;
use crate::grant::{Grant, NamespaceScope, UserScope};
use crate::matrix::{Permission, Row, row};
use crate::policy::Policy;
use crate::principal::{Principal, PrincipalKind};
use crate::role::Role;
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
        ..Credentials::default()
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

/// Returns a principal by name with a grant of each of these roles in its namespace, as those of that user.
fn holder(grants: &[(Role, &str, UserScope)]) -> Principal {
    let grants = grants.iter().map(|(role, namespace, user)| Grant {
        user: user.clone(),
        ..Grant::new(
            [*role].into_iter().collect(),
            NamespaceScope::Named([named(namespace)].into()),
        )
    });
    Principal {
        name: "ada".into(),
        kind: PrincipalKind::Token,
        ..Principal::anonymous(grants.collect())
    }
}

#[test]
fn no_grant_lends_its_role_to_the_namespaces_of_another() {
    let cell = |row: &Row, role: Role, home: &str, namespace: &str| match row.of(role) {
        Permission::Never | Permission::WithPayloads => false,
        _ => !matches!(role, Role::Viewer | Role::Submitter) || home == namespace,
    };
    for path in crate::matrix::tests::paths() {
        let row = row(path).unwrap();
        for one in Role::ALL {
            for other in Role::ALL {
                let both = holder(&[
                    (one, "billing", UserScope::Free),
                    (other, "agents", UserScope::Free),
                ]);
                for namespace in ["billing", "agents", "default"] {
                    let expected =
                        cell(&row, one, "billing", namespace) || cell(&row, other, "agents", namespace);
                    let found = both.check_within(Some(&row), &named(namespace));
                    assert_eq!(
                        found.is_ok(),
                        expected,
                        "{path} in {namespace} by {one} and {other}"
                    );
                }
            }
        }
    }
}

#[test]
fn payloads_are_for_the_grant_that_says_so_and_a_role_beside_it_lends_nothing() {
    let (_, both) = access("roles = [\"operator\", \"submitter\"]\nnamespaces = [\"billing\"]\n");
    for path in [
        "/escapement.v1.PlanExecutionService/ExportExecution",
        "/escapement.runs.v1.RunService/ExportRun",
    ] {
        let exports = row(path).unwrap();
        let own = both.check_within(Some(&exports), &named("billing"));
        assert_eq!(own, Ok(()), "a submitter there");
        let denial = both.check_within(Some(&exports), &named("agents")).unwrap_err();
        assert_eq!(denial.reason(), "NAMESPACE_NOT_PERMITTED");
        assert!(!both.permits_everywhere(Some(&exports)));
        let (_, payloads) = access("roles = [\"operator\"]\npayloads = true\n");
        assert!(payloads.permits_everywhere(Some(&exports)));
    }
}

#[test]
fn a_viewer_of_one_namespace_is_held_to_its_actions_where_it_submits_and_in_calls_for_submitters() {
    let both = holder(&[
        (Role::Viewer, "billing", UserScope::Free),
        (Role::Submitter, "billing", UserScope::Free),
        (Role::Submitter, "agents", UserScope::Free),
    ]);
    let held = |method: &str, namespace: &str| {
        let row = row(&format!("/escapement.v1.PlanExecutionService/{method}")).unwrap();
        both.is_held_to_actions(&row, &named(namespace))
    };
    assert!(!held("ValidatePlan", "billing"), "a viewer looks at every plan");
    assert!(held("ValidatePlan", "agents"));
    assert!(held("SimulatePlan", "billing") && held("ExecutePlan", "billing"));
    let operator = holder(&[(Role::Operator, "default", UserScope::Free)]);
    let simulates = row("/escapement.v1.PlanExecutionService/SimulatePlan").unwrap();
    assert!(!operator.is_held_to_actions(&simulates, &named("billing")));
}

#[test]
fn no_grant_lends_its_users_to_the_namespaces_of_another() {
    // A grant that reads nothing finds nobody.
    let worker = (Role::Worker, "billing", UserScope::Free);
    let mixed = holder(&[
        (Role::Submitter, "billing", UserScope::Own),
        (Role::Viewer, "agents", UserScope::Free),
        worker.clone(),
    ]);
    assert!(mixed.sees_of(&named("billing"), Some("ada")));
    assert!(!mixed.sees_of(&named("billing"), Some("eve")) && !mixed.sees_of(&named("billing"), None));
    assert!(mixed.sees_of(&named("agents"), Some("eve")) && mixed.sees_of(&named("agents"), None));
    assert!(!mixed.sees_of(&named("default"), Some("ada")));
    let (billing, agents) = (named("billing"), named("agents"));
    let pairs = [(Some(&billing), Some("ada")), (Some(&agents), None)];
    assert_eq!(mixed.scopes(), pairs);
    let own = holder(&[(Role::Submitter, "billing", UserScope::Own), worker]);
    assert_eq!(own.scopes(), pairs[..1]);

    // Who reads everybody's things does not thereby change them.
    let mixed = holder(&[
        (Role::Submitter, "billing", UserScope::Own),
        (Role::Viewer, "billing", UserScope::Free),
    ]);
    assert_eq!(mixed.scopes(), [(Some(&billing), None)]);
    assert!(mixed.sees_of(&named("billing"), Some("eve")));
    let resumes = row("/escapement.runs.v1.RunService/ResumeRun").unwrap();
    let of = |user| mixed.check_within_of(Some(&resumes), &named("billing"), Some(user));
    assert_eq!(of("ada"), Ok(()));
    assert_eq!(of("eve").unwrap_err().reason(), "NAMESPACE_NOT_PERMITTED");
}

/// In whose name it makes a run in the namespace, if the request names that user.
fn user<'a>(
    principal: &'a Principal,
    namespace: &str,
    requested: &'a str,
) -> Result<Option<&'a str>, Denial> {
    let creates = row("/escapement.runs.v1.RunService/CreateRun").unwrap();
    principal.user(Some(&creates), &named(namespace), "user_id", requested)
}

#[test]
fn a_user_is_the_one_who_calls_unless_the_policy_lets_it_name_another() {
    let refused = Err(Denial::UserNotPermitted { field: "user_id" });
    let (_, plain) = access("roles = [\"submitter\"]\n");
    assert_eq!(user(&plain, "default", ""), Ok(Some("ada")));
    assert_eq!(user(&plain, "default", "ada"), Ok(Some("ada")));
    assert_eq!(user(&plain, "default", "eve"), refused);
    assert!(!plain.is_held_somewhere());

    let (_, own) = access("roles = [\"submitter\"]\nuser = true\n");
    assert_eq!(user(&own, "default", ""), Ok(Some("ada")));
    assert_eq!(user(&own, "default", "eve"), refused);
    assert!(own.is_held_somewhere());

    let (_, other) = access("roles = [\"submitter\"]\nuser = \"lovelace\"\n");
    assert_eq!(user(&other, "default", ""), Ok(Some("lovelace")));
    assert_eq!(user(&other, "default", "eve"), refused);
    assert!(other.named_users(&named("default")).eq(["lovelace"]));

    let (_, any) = access("roles = [\"submitter\"]\nuser = \"*\"\n");
    assert_eq!(user(&any, "default", ""), Ok(None));
    assert_eq!(user(&any, "default", "eve"), Ok(Some("eve")));
    assert!(!any.is_held_somewhere());

    let anonymous = Principal::without_policy();
    assert_eq!(
        anonymous.user(None, &named("default"), "user_id", "eve"),
        Ok(Some("eve"))
    );
    assert!(anonymous.finds_all());
    let (_, admin) = access("roles = [\"admin\"]\nuser = true\n");
    assert_eq!(user(&admin, "default", "eve"), Ok(Some("eve")));
    assert!(admin.finds_all());
}

#[test]
fn who_acts_for_somebody_in_one_namespace_does_not_act_for_them_in_another() {
    let refused = Err(Denial::UserNotPermitted { field: "user_id" });
    let named_apart = holder(&[
        (Role::Submitter, "billing", UserScope::Named("alice".into())),
        (Role::Submitter, "agents", UserScope::Named("bob".into())),
    ]);
    assert_eq!(user(&named_apart, "billing", ""), Ok(Some("alice")));
    assert_eq!(user(&named_apart, "agents", ""), Ok(Some("bob")));
    assert_eq!(user(&named_apart, "billing", "bob"), refused);
    assert!(named_apart.named_users(&named("billing")).eq(["alice"]));

    // Nor by a grant that does not let it make the call.
    for (role, namespace) in [(Role::Submitter, "agents"), (Role::Viewer, "billing")] {
        let mixed = holder(&[
            (Role::Submitter, "billing", UserScope::Own),
            (role, namespace, UserScope::Any),
        ]);
        assert_eq!(user(&mixed, "billing", "eve"), refused, "{role:?} in {namespace}");
        assert_eq!(user(&mixed, "billing", ""), Ok(Some("ada")));
    }
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

#[test]
fn what_lies_in_a_scope_is_what_it_sees() {
    for entry in [
        "roles = [\"submitter\"]\nnamespaces = [\"billing\", \"agents\"]\n",
        "roles = [\"submitter\"]\nnamespaces = [\"billing\"]\nuser = true\n",
        "roles = [\"viewer\"]\nnamespaces = [\"*\"]\nuser = \"eve\"\n",
        "roles = [\"submitter\"]\nuser = \"*\"\n",
        "roles = [\"operator\", \"submitter\"]\nuser = true\n",
        "roles = [\"worker\"]\n",
    ] {
        let (_, principal) = access(entry);
        let scopes = principal.scopes();
        for namespace in ["billing", "agents", "default"].map(named) {
            for owner in ["ada", "eve"] {
                let is_in = |(of, user): &(Option<&Namespace>, Option<&str>)| {
                    of.is_none_or(|of| *of == namespace) && user.is_none_or(|user| user == owner)
                };
                assert_eq!(
                    scopes.iter().any(is_in),
                    principal.sees_of(&namespace, Some(owner)),
                    "{entry}: {namespace:?} {owner}"
                );
            }
        }
    }
}
