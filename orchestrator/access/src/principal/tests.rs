//! What principals may, and that grants are only ever added.

use super::{Principal, PrincipalKind};
use crate::denial::Denial;
use crate::grant::{Grant, NamespaceScope};
use crate::matrix::row;
use crate::pattern::Pattern;
use crate::role::Role;
use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use escapement_model::Namespace;
use proptest::prelude::*;

fn named(name: &str) -> Namespace {
    Namespace::parse(name).unwrap()
}

fn grant(role: Role, namespaces: &[&str], actions: &[&str]) -> Grant {
    let scope = NamespaceScope::Named(namespaces.iter().map(|name| named(name)).collect());
    Grant {
        actions: actions.iter().map(|text| Pattern::new(text).unwrap()).collect(),
        ..Grant::new([role].into_iter().collect(), scope)
    }
}

fn principal(grants: Vec<Grant>) -> Principal {
    Principal {
        kind: PrincipalKind::Token,
        name: "somebody".into(),
        ..Principal::anonymous(grants)
    }
}

#[test]
fn a_grant_never_lends_its_actions_to_the_namespaces_of_another() {
    let both = principal(vec![
        grant(Role::Submitter, &["billing"], &["billing.*"]),
        grant(Role::Submitter, &["agents"], &["agents.*"]),
    ]);
    assert!(both.may_submit(&named("billing"), "billing.charge"));
    assert!(!both.may_submit(&named("billing"), "agents.ask"));
    assert_eq!(
        both.check_plan(&named("agents"), ["agents.ask", "billing.charge"]),
        Err(Denial::ActionNotPermitted {
            field: "plan.steps[1].action".to_string(),
            action: "billing.charge".to_string(),
        })
    );
}

#[test]
fn a_request_without_a_namespace_is_for_the_only_one_or_for_default() {
    let one = principal(vec![grant(Role::Viewer, &["billing"], &["*"])]);
    assert_eq!(one.namespace(""), Ok(named("billing")));
    let two = principal(vec![grant(Role::Viewer, &["billing", "default"], &["*"])]);
    assert_eq!(two.namespace(""), Ok(Namespace::default()));
    let without_default = principal(vec![grant(Role::Viewer, &["billing", "agents"], &["*"])]);
    assert_eq!(
        without_default.namespace("").unwrap_err().reason(),
        "NAMESPACE_NOT_PERMITTED"
    );
    assert_eq!(
        one.namespace("agents").unwrap_err().reason(),
        "NAMESPACE_NOT_PERMITTED"
    );
    assert_eq!(
        Principal::without_policy().namespace(""),
        Ok(Namespace::default())
    );
    assert_eq!(Principal::without_policy().namespace("x"), Ok(named("x")));
}

#[test]
fn limits_are_united_to_the_widest() {
    let limited = |max| Grant {
        max_sessions: max,
        ..grant(Role::Worker, &[], &["*"])
    };
    assert_eq!(
        principal(vec![limited(Some(2)), limited(Some(5))]).max_sessions(),
        Some(5)
    );
    assert_eq!(
        principal(vec![limited(Some(2)), limited(None)]).max_sessions(),
        None
    );
    assert_eq!(principal(vec![]).max_sessions(), None);
}

#[test]
fn who_proved_a_name_answers_under_no_other() {
    let mut anna = principal(vec![]);
    (anna.name, anna.kind) = ("anna".into(), PrincipalKind::Token);
    let field = "responder.id";
    assert_eq!(anna.responder(field, ""), Ok(Some("anna")));
    assert_eq!(anna.responder(field, "anna"), Ok(Some("anna")));
    for other in ["otto", "Anna", "anna "] {
        let denied = Err(Denial::ResponderNotPermitted { field });
        assert_eq!(anna.responder(field, other), denied, "{other:?}");
    }
    assert_eq!(Principal::without_policy().responder(field, "otto"), Ok(None));
    assert_eq!(Principal::without_policy().verified_name(), None);
}

#[test]
fn who_lacks_a_role_is_told_which_ones_would_do() {
    let viewer = principal(vec![grant(Role::Viewer, &["default"], &["*"])]);
    let path = "/escapement.v1.FleetService/DrainWorker";
    let row = row(path).unwrap();
    let denial = viewer.permits(path, &row).unwrap_err();
    assert_eq!(
        denial.facts(),
        [
            ("rpc", "escapement.v1.FleetService/DrainWorker".to_string()),
            ("role", "operator,admin".to_string())
        ]
    );
    let nobody = Principal::anonymous(vec![]);
    assert_eq!(nobody.permits(path, &row), Err(Denial::CredentialsMissing));
}

fn grants() -> impl Strategy<Value = Vec<Grant>> {
    let names = prop::sample::subsequence(vec!["a", "b", "default"], 0..=3);
    let actions = prop::sample::subsequence(vec!["x.*", "y", "*"], 0..=3);
    let roles = prop::sample::subsequence(Role::ALL.to_vec(), 0..=5);
    let grant = (roles, names, actions).prop_map(|(roles, names, actions)| Grant {
        roles: roles.into_iter().collect(),
        ..grant(Role::Viewer, &names, &actions)
    });
    prop::collection::vec(grant, 0..4)
}

/// Returns everything that a principal may, of a small world.
fn rights(principal: &Principal) -> BTreeSet<alloc::string::String> {
    let mut rights = BTreeSet::new();
    for namespace in ["a", "b", "default"] {
        let sees = principal.sees(&named(namespace));
        rights.extend(sees.then(|| alloc::format!("see {namespace}")));
        for action in ["x.1", "y", "z"] {
            let may = principal.may_submit(&named(namespace), action);
            rights.extend(may.then(|| alloc::format!("submit {action} to {namespace}")));
            rights.extend(
                principal
                    .may_offer(action)
                    .then(|| alloc::format!("offer {action}")),
            );
        }
    }
    for path in crate::matrix::tests::paths() {
        let permits = principal.permits(path, &row(path).unwrap()).is_ok();
        rights.extend(permits.then(|| path.clone()));
    }
    rights
}

proptest! {
    #[test]
    fn another_grant_never_takes_anything_away(one in grants(), other in grants()) {
        let united = principal(one.iter().chain(&other).cloned().collect());
        let sum: BTreeSet<_> = rights(&principal(one)).union(&rights(&principal(other))).cloned().collect();
        prop_assert_eq!(rights(&united), sum);
    }
}
