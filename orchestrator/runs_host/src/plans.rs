//! Plans that runs in memory share: runs of the same document have one plan. Keeps no plan that no run has.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use escapement_model::Opaque;
use escapement_run::plan::{self, Plan, Violations};

/// The plans of the runs in memory, by their digests. Of documents that say the same in other words one is known.
#[derive(Default)]
pub(crate) struct SharedPlans(RefCell<Known>);

#[derive(Default)]
struct Known {
    plans: BTreeMap<[u8; 32], Weak<Plan>>,
    /// As many are known before those that no run has are looked for.
    sweep_at: usize,
}

impl SharedPlans {
    /// Returns the plan of a document that was checked before, and has this digest unless it is damaged.
    ///
    /// # Errors
    /// As the document is read.
    pub(crate) fn read(&self, digest: &[u8], document: &Opaque) -> Result<Arc<Plan>, Violations> {
        let known = <[u8; 32]>::try_from(digest).ok();
        let known = known.and_then(|digest| self.known(&digest, document));
        match known {
            Some(plan) => Ok(plan),
            None => Ok(self.share(Arc::new(plan::read(document)?))),
        }
    }

    /// Returns the same plan, shared with other runs if possible.
    pub(crate) fn share(&self, plan: Arc<Plan>) -> Arc<Plan> {
        if let Some(known) = self.known(&plan.digest, &plan.document) {
            return known;
        }
        let mut known = self.0.borrow_mut();
        if known.plans.len() >= known.sweep_at {
            known.plans.retain(|_, plan| plan.strong_count() > 0);
            known.sweep_at = SWEEP_MIN.max(2 * known.plans.len());
        }
        known.plans.insert(plan.digest, Arc::downgrade(&plan));
        plan
    }

    fn known(&self, digest: &[u8; 32], document: &Opaque) -> Option<Arc<Plan>> {
        let known = self.0.borrow().plans.get(digest)?.upgrade()?;
        (known.document == *document).then_some(known)
    }
}

/// Plans that are known before those that no run has are looked for.
const SWEEP_MIN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use escapement_model::opaque::{ListBuilder, StructBuilder};

    fn document(n: usize) -> Opaque {
        let config = StructBuilder::new().text("tool_name", "pure.work").build();
        let step = StructBuilder::new()
            .text("key", "work")
            .text("type", "tool_call")
            .object("config", config.as_encoded());
        let head = StructBuilder::new().text("schema", "escapement.plan/1");
        let named = head.text("name", &format!("plan {n}"));
        let steps = ListBuilder::new().object(step.build().as_encoded());
        named.list("steps", steps).build()
    }

    #[test]
    fn runs_of_the_same_document_have_one_plan() {
        let plans = SharedPlans::default();
        let first = plans.share(Arc::new(plan::read(&document(1)).expect("it is right")));
        let read = plans.read(&first.digest, &document(1)).expect("it is right");
        assert!(Arc::ptr_eq(&first, &read));
        let other = plans.read(&[0; 32], &document(2)).expect("it is right");
        assert!(!Arc::ptr_eq(&first, &other));
    }

    #[test]
    fn a_plan_that_no_run_has_is_forgotten() {
        let plans = SharedPlans::default();
        let kept = plans.share(Arc::new(plan::read(&document(0)).expect("it is right")));
        for n in 1..10 * SWEEP_MIN {
            plans.share(Arc::new(plan::read(&document(n)).expect("it is right")));
        }
        assert!(plans.0.borrow().plans.len() <= 2 * SWEEP_MIN);
        let read = plans.read(&kept.digest, &document(0)).expect("it is right");
        assert!(Arc::ptr_eq(&kept, &read));
    }
}
