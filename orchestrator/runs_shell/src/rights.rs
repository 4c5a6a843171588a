//! Where runs come from, and what they may call in the name of who started them: what was recorded of that, and what the policy
//! says now.
//! Knows no policy.

use std::sync::Arc;

use escapement_access::{Access, Grant, NamespaceScope, Pattern, Principal, PrincipalKind, Recorded, Role};
use escapement_model::Namespace;
use escapement_run::spec::{Author, AuthorKind, Spec, TraceContext, namespace_named};
use escapement_wire::v1::AcceptedBy;
use escapement_wire::v1::accepted_by::Kind;

/// In which namespace a run lies, and in whose name it calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    /// The namespace.
    pub namespace: Namespace,
    /// Who started it; `None` if nobody proved anything and nothing was held against its actions.
    pub author: Option<Box<Author>>,
    /// What its calls say of their trace, if they belong to one.
    pub trace: Option<Box<TraceContext>>,
}

/// What the policy says now. Cheap to clone.
#[derive(Clone, Default)]
pub struct Rights(Option<Arc<StillPermits>>);

/// True if the author may have that action called in that namespace, by the policy as it is now.
pub type StillPermits = dyn Fn(&Author, &Namespace, &str) -> bool + Send + Sync;

impl std::fmt::Debug for Rights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Rights").field(&self.0.is_some()).finish()
    }
}

impl Rights {
    /// Asks this each time.
    pub fn new(still_permits: Arc<StillPermits>) -> Self {
        Self(Some(still_permits))
    }

    /// Asks the access that is in force each time.
    pub fn by(current: impl Fn() -> Arc<Access> + Send + Sync + 'static) -> Self {
        Self::new(Arc::new(
            move |author: &Author, namespace: &Namespace, action: &str| {
                let recorded = Recorded {
                    kind: kind_of(author),
                    name: &author.name,
                    issuer: &author.issuer,
                };
                current().still_permits(recorded, namespace, action)
            },
        ))
    }

    /// Returns true if a run of that origin may have the action called: its author could when the run was started, and still can.
    pub fn permit(&self, origin: &Origin, action: &str) -> bool {
        let Some(author) = &origin.author else {
            return true;
        };
        let still = || {
            let asked = self.0.as_ref();
            asked.is_none_or(|still_permits| still_permits(author, &origin.namespace, action))
        };
        recorded(author, action) && still()
    }
}

impl Origin {
    /// That of a run.
    pub fn of(spec: &Spec) -> Self {
        Self {
            namespace: namespace_named(&spec.namespace),
            author: spec.author.clone(),
            trace: spec.trace.clone(),
        }
    }

    /// Returns the id of the trace, for the log.
    pub(crate) fn trace_id(&self) -> Option<&str> {
        self.trace.as_ref()?.traceparent.split('-').nth(1)
    }

    /// Returns the principal that hands in the run's plans to the contract of this process; `None` if none was proved.
    pub fn principal(&self) -> Option<Arc<Principal>> {
        let author = self.author.as_ref()?;
        let kind = kind_of(author);
        if kind == PrincipalKind::Anonymous {
            return None;
        }
        let namespaces = NamespaceScope::Named([self.namespace.clone()].into());
        let mut grant = Grant::new([Role::Submitter].into_iter().collect(), namespaces);
        if let Some(actions) = &author.actions {
            let patterns = actions.patterns.iter();
            grant.actions = patterns
                .filter_map(|pattern| Pattern::new(pattern).ok())
                .collect();
        }
        Some(Arc::new(Principal {
            name: author.name.as_str().into(),
            kind,
            issuer: author.issuer.as_str().into(),
            valid_until_ms: None,
            grants: vec![grant],
        }))
    }
}

impl Origin {
    /// Returns true if attempts of such a run are submitted by that caller.
    pub(crate) fn is_of(&self, accepted_by: Option<&AcceptedBy>) -> bool {
        let Some(author) = self.author.as_ref() else {
            return accepted_by.is_none();
        };
        let kind = match author.kind() {
            AuthorKind::Anonymous => return accepted_by.is_none(),
            AuthorKind::Token => Kind::Token,
            AuthorKind::Jwt => Kind::Jwt,
            AuthorKind::Certificate => Kind::Certificate,
            AuthorKind::Attempt => Kind::Attempt,
        };
        accepted_by
            .is_some_and(|by| by.kind() == kind && by.name == author.name && by.issuer == author.issuer)
    }
}

fn kind_of(author: &Author) -> PrincipalKind {
    match author.kind() {
        AuthorKind::Anonymous => PrincipalKind::Anonymous,
        AuthorKind::Token => PrincipalKind::Token,
        AuthorKind::Jwt => PrincipalKind::Jwt,
        AuthorKind::Certificate => PrincipalKind::Certificate,
        AuthorKind::Attempt => PrincipalKind::Attempt,
    }
}

/// Returns true if the author's plans might call the action when it was recorded.
fn recorded(author: &Author, action: &str) -> bool {
    let Some(actions) = &author.actions else {
        return true;
    };
    let mut patterns = actions.patterns.iter();
    patterns.any(|pattern| Pattern::new(pattern).is_ok_and(|pattern| pattern.matches(action)))
}

#[cfg(test)]
mod tests {
    use super::{Origin, Rights};
    use escapement_model::Namespace;
    use escapement_run::spec::{ActionPatterns, Author, AuthorKind};
    use std::sync::Arc;

    fn origin(patterns: Option<&[&str]>) -> Origin {
        let actions = patterns.map(|patterns| ActionPatterns {
            patterns: patterns.iter().map(|pattern| (*pattern).to_owned()).collect(),
        });
        let mut author = Author {
            name: "ada".to_owned(),
            actions,
            ..Author::default()
        };
        author.set_kind(AuthorKind::Token);
        Origin {
            namespace: Namespace::parse("billing").unwrap_or_default(),
            author: Some(Box::new(author)),
            trace: None,
        }
    }

    #[test]
    fn a_run_may_call_what_its_author_could_then_and_can_now() {
        let now = Rights::new(Arc::new(
            |author: &Author, namespace: &Namespace, action: &str| {
                author.name == "ada" && namespace.as_str() == "billing" && action != "pay.out"
            },
        ));
        let some = origin(Some(&["pay.*"]));
        assert!(now.permit(&some, "pay.in"));
        assert!(!now.permit(&some, "pay.out"), "the policy was narrowed");
        assert!(!now.permit(&some, "mail"), "the policy was widened since");
        assert!(now.permit(&origin(None), "mail") && !now.permit(&origin(Some(&[])), "mail"));
        assert!(now.permit(&Origin::default(), "pay.out"), "nobody is asked for");
        assert!(Rights::default().permit(&some, "pay.out"), "there is no policy");
    }

    #[test]
    fn its_plans_are_handed_in_by_its_author() {
        let principal = origin(Some(&["pay.*"]))
            .principal()
            .unwrap_or_else(|| panic!("it has proved its name"));
        let namespace = Namespace::parse("billing").unwrap_or_default();
        assert_eq!(&*principal.name, "ada");
        assert!(principal.may_submit(&namespace, "pay.in") && !principal.may_submit(&namespace, "mail"));
        assert!(!principal.sees(&Namespace::default()));
        assert_eq!(Origin::default().principal(), None);
    }
}
