//! Namespaces as the engine knows them: as numbers, with what each may take. Decides nothing.

use escapement_access::Access;
use escapement_engine::{Input, NamespaceKey, NamespaceShare};
use escapement_model::Namespace;
use sha2::{Digest, Sha256};

/// Returns the number of a namespace: 0 for `default`, and the first 8 bytes of the SHA-256 of any other name, big end first.
/// So it is the same in every process, and nothing has to be kept. Two of a million names share one by chance once in
/// 30 million such sets; they would share one quota and one turn.
pub fn key(namespace: &Namespace) -> NamespaceKey {
    if namespace.as_str() == Namespace::DEFAULT {
        return NamespaceKey::default();
    }
    let digest = Sha256::digest(namespace.as_str());
    let (first, _) = digest.split_first_chunk().expect("a digest has 32 bytes");
    NamespaceKey(u64::from_be_bytes(*first))
}

/// What namespaces may take by the policy; nothing is said of any if there is none.
pub fn share_out(access: &Access) -> Input {
    let declared = access.policy().into_iter().flat_map(|policy| policy.namespaces());
    let share = |(namespace, limits): (&Namespace, escapement_access::NamespaceLimits)| NamespaceShare {
        namespace: key(namespace),
        weight: limits.weight,
        max_live_executions: limits.max_live_executions,
        max_running_executions: limits.max_running_executions,
    };
    Input::ShareOut(declared.map(share).collect())
}

#[cfg(test)]
mod tests {
    use super::{key, share_out};
    use escapement_access::{Access, Policy};
    use escapement_engine::{Input, NamespaceKey};
    use escapement_model::Namespace;

    #[test]
    fn each_name_has_a_number_of_its_own_that_never_changes() {
        let number = |name: &str| key(&Namespace::parse(name).unwrap()).0;
        assert_eq!(number("default"), 0);
        assert_eq!(number("billing"), 0x0c95_c7ec_e1ce_1a97);
        assert_ne!(number("agents"), number("agent"));
    }

    #[test]
    fn what_the_policy_declares_is_shared_out() {
        let policy =
            "version = 1\n[[namespace]]\nname = \"billing\"\nweight = 3\nmax_running_executions = 2\n";
        let Input::ShareOut(shares) = share_out(&Access::new(Policy::parse(policy).unwrap())) else {
            panic!("another input");
        };
        assert_eq!(shares.len(), 2, "the default namespace is always declared");
        let billing = shares.iter().find(|share| share.namespace != NamespaceKey(0));
        let billing = billing.unwrap();
        assert_eq!(
            (
                billing.weight,
                billing.max_live_executions,
                billing.max_running_executions
            ),
            (3, None, Some(2))
        );
        let Input::ShareOut(none) = share_out(&Access::without_policy()) else {
            panic!("another input");
        };
        assert!(none.is_empty());
    }
}
