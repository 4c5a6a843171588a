//! Who a caller is, as callers are told and as it is recorded; and for whom an attempt acts, by what is recorded of its execution.
//! Says no secret: a principal holds none.

use crate::provenance::Provenance;
use escapement_access::{Grant, NamespaceScope, Pattern, Principal, PrincipalKind, Role, UserScope};
use escapement_model::{ExecutionId, Namespace};
use escapement_wire::v1;
use escapement_wire::v1::accepted_by::Kind as Accepted;
use escapement_wire::v1::principal::Kind;

/// A principal and what it may. What an attempt may is known to who verified it, and is not filled in.
pub fn principal(principal: &Principal) -> v1::Principal {
    let kind = match principal.kind {
        PrincipalKind::Anonymous => Kind::Anonymous,
        PrincipalKind::Token => Kind::Token,
        PrincipalKind::Jwt => Kind::Jwt,
        PrincipalKind::Certificate => Kind::Certificate,
        PrincipalKind::Attempt => Kind::Attempt,
    };
    v1::Principal {
        name: principal.name.to_string(),
        kind: kind as i32,
        issuer: principal.issuer.to_string(),
        valid_until: principal.valid_until_ms,
        grants: principal.grants.iter().map(grant).collect(),
        attempt_rights: None,
    }
}

/// An attempt of this execution and what it may.
pub fn attempt(attempt: &Principal, execution_id: ExecutionId, of: &Provenance) -> v1::Principal {
    let rights = v1::AttemptRights {
        execution_id: execution_id.to_string(),
        namespace: of.namespace.to_string(),
        actions: attempt
            .grants
            .iter()
            .flat_map(|grant| texts(&grant.actions))
            .collect(),
    };
    v1::Principal {
        grants: Vec::new(),
        attempt_rights: Some(rights),
        ..principal(attempt)
    }
}

/// Who an attempt is by what is recorded of its execution: it acts in the name of who handed in the outermost one, and its plans may
/// name the actions that theirs might when it was accepted.
///
/// As recorded and not as the policy is now: the rights of a JSON Web Token cannot be looked up later, and what was accepted runs
/// with the rights that it was accepted with.
pub fn of_attempt(of: &Provenance) -> Principal {
    let actions = match of.actions.is_empty() {
        true => vec![Pattern::any()],
        // What is no pattern matches nothing.
        false => of
            .actions
            .iter()
            .filter_map(|text| Pattern::new(text).ok())
            .collect(),
    };
    let (name, issuer) = match &of.accepted_by {
        Some(by) => (by.name.as_str(), by.issuer.as_str()),
        None => (Principal::ANONYMOUS, ""),
    };
    Principal::attempt(name, issuer, of.namespace.clone(), actions)
}

/// Who hands in a plan, as it is recorded; `None` if nobody proved who they are. `of`: for an attempt, what is recorded of its execution.
pub fn accepted_by(principal: &Principal, of: Option<&Provenance>) -> Option<v1::AcceptedBy> {
    let kind = match principal.kind {
        PrincipalKind::Anonymous => return None,
        PrincipalKind::Token => Accepted::Token,
        PrincipalKind::Jwt => Accepted::Jwt,
        PrincipalKind::Certificate => Accepted::Certificate,
        PrincipalKind::Attempt => Accepted::Attempt,
    };
    let origin = match of.and_then(|of| of.accepted_by.as_ref()) {
        Some(by) if by.kind() == Accepted::Attempt => by.origin(),
        Some(by) => by.kind(),
        None => Accepted::Unspecified,
    };
    Some(v1::AcceptedBy {
        name: principal.name.to_string(),
        kind: kind as i32,
        issuer: principal.issuer.to_string(),
        origin: origin as i32,
    })
}

/// Returns the actions that the principal's plans in the namespace may name, as they are recorded: empty for every action.
pub fn recorded_actions(principal: &Principal, namespace: &Namespace) -> Vec<String> {
    match principal.submitted_actions(namespace) {
        None => Vec::new(),
        // No action at all: a text that is no pattern.
        Some(patterns) if patterns.is_empty() => vec![String::new()],
        Some(patterns) => patterns,
    }
}

fn grant(grant: &Grant) -> v1::Grant {
    let namespaces = match &grant.namespaces {
        NamespaceScope::All => vec![Pattern::any().as_str().to_owned()],
        NamespaceScope::Named(names) => names.iter().map(|name| name.as_str().to_owned()).collect(),
    };
    v1::Grant {
        roles: grant.roles.iter().map(Role::as_str).map(str::to_owned).collect(),
        namespaces,
        actions: texts(&grant.actions),
        worker_ids: texts(&grant.worker_ids),
        max_in_flight: grant.max_in_flight,
        max_sessions: grant.max_sessions,
        payloads: grant.payloads,
        agent: grant.is_agent,
        user: match &grant.user {
            UserScope::Free => String::new(),
            UserScope::Own => "true".to_owned(),
            UserScope::Named(name) => name.to_string(),
            UserScope::Any => Pattern::any().as_str().to_owned(),
        },
    }
}

fn texts(patterns: &[Pattern]) -> Vec<String> {
    patterns
        .iter()
        .map(|pattern| pattern.as_str().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use escapement_access::Roles;
    use escapement_model::Namespace;

    #[test]
    fn what_is_told_has_the_words_of_the_policy() {
        let everybody = principal(&Principal::without_policy());
        assert_eq!(
            (everybody.name.as_str(), everybody.kind()),
            ("anonymous", Kind::Anonymous)
        );
        let [all] = &everybody.grants[..] else {
            panic!("one grant gives everything");
        };
        assert_eq!(all.roles, ["viewer", "submitter", "worker", "operator", "admin"]);
        assert_eq!(
            (&all.namespaces[..], &all.actions[..], &all.worker_ids[..]),
            (
                &["*".to_owned()][..],
                &["*".to_owned()][..],
                &["*".to_owned()][..]
            )
        );
        assert!(all.payloads && !all.agent && all.max_sessions.is_none());

        let names = [Namespace::parse("agents").unwrap(), Namespace::default()];
        let roles: Roles = [Role::Submitter].into_iter().collect();
        let mut one = Grant::new(roles, NamespaceScope::Named(names.into_iter().collect()));
        one.actions = vec![Pattern::new("billing.*").unwrap()];
        (one.max_in_flight, one.is_agent) = (Some(7), true);
        let told = grant(&one);
        assert_eq!(told.roles, ["submitter"]);
        assert_eq!(told.namespaces, ["agents", "default"]);
        assert_eq!(told.actions, ["billing.*"]);
        assert!(told.agent && told.max_in_flight == Some(7));
    }
}
