//! What is kept, how long, and what gives way.

use super::JwtCache;
use crate::denial::Denial;
use crate::principal::Principal;
use alloc::sync::Arc;

#[test]
fn what_was_judged_is_kept_for_as_long_as_it_holds() {
    let mut cache = JwtCache::default();
    let digest = |n: usize| {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&n.to_le_bytes());
        digest
    };
    let principal = |valid_until_ms| {
        Ok(Arc::new(Principal {
            valid_until_ms,
            ..Principal::without_policy()
        }))
    };
    cache.keep(digest(0), &principal(Some(100)), 0);
    assert!(cache.find(&digest(0), 99).is_some());
    assert_eq!(cache.find(&digest(0), 100), None);
    let refused = Err(Denial::CredentialsInvalid);
    cache.keep(digest(1), &refused, 0);
    assert_eq!(
        cache.find(&digest(1), JwtCache::REFUSAL_MS - 1),
        Some(refused.clone())
    );
    assert_eq!(cache.find(&digest(1), JwtCache::REFUSAL_MS), None);
    let unavailable = Err(Denial::KeysUnavailable { issuer: "a".into() });
    cache.keep(digest(2), &unavailable, 0);
    assert_eq!(cache.find(&digest(2), 0), None);
    // Forgeries drive out forgeries, and never who was let in.
    let n_good = JwtCache::ENTRIES_MAX / 2;
    for n in 0..n_good {
        cache.keep(digest(10 + n), &principal(Some(i64::MAX)), 1_000);
    }
    for n in 0..2 * JwtCache::ENTRIES_MAX {
        cache.keep(digest(1_000_000 + n), &refused, 1_000);
        assert!(cache.len() <= JwtCache::ENTRIES_MAX);
    }
    let all_there = (0..n_good).all(|n| cache.find(&digest(10 + n), 2_000).is_some());
    assert!(all_there && !cache.is_empty());
}
