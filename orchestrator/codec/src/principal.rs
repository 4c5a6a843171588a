//! Who a caller is, as callers are told. Says no secret: a principal holds none.

use escapement_access::{Grant, NamespaceScope, Pattern, Principal, PrincipalKind, Role, UserScope};
use escapement_wire::v1;
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
