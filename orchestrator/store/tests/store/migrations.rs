//! Every earlier version's store is converted and keeps everything.

use escapement_model::{BootId, Namespace};
use escapement_store::embedded::Examiner;
use escapement_store::{
    ActionMemory, OperatorDeed, OperatorFilter, OperatorIntent, OperatorWrite, Outcome, Removal, Store, Write,
};
use escapement_store_kit::conformance::Sample;
use escapement_store_kit::earlier::{EXECUTIONS, RUNS};

use crate::earlier::take_back;
use crate::opened::open;
use crate::scratch::Scratch;

/// The versions that brought what this test looks at.
const WITH_REMOVAL: usize = 2;
const WITH_OUTLINES: usize = 4;
const WITH_ACTIONS: usize = 5;
const WITH_NAMESPACES: usize = 6;
const WITH_OPERATORS: usize = 7;

fn act() -> Write {
    Write::Operator(OperatorWrite {
        at: 5,
        boot_id: BootId::new([1; 16]),
        deed: OperatorDeed::Intent(OperatorIntent::default()),
        keep_from: None,
    })
}

#[test]
fn a_store_of_every_earlier_version_is_converted_and_keeps_everything() {
    for version in 1..=EXECUTIONS.migrations.len() {
        let directory = Scratch::new();
        let mut samples: Vec<Sample> = (1..=7).map(Sample::new).collect();
        if version < WITH_NAMESPACES {
            for sample in &mut samples {
                sample.accept.namespace = Namespace::default();
            }
        }
        let mut store = open(&directory);
        let mut n_settled = 5;
        for sample in &samples[..5] {
            store.commit(&[sample.accept(), sample.settle(2)]).unwrap();
        }
        let memory = ActionMemory {
            name: "echo".to_owned(),
            left_ms: Some(9),
        };
        let rest = [
            samples[5].accept(),
            samples[6].accept(),
            samples[6].start(),
            Write::RememberActions(vec![memory.clone()]),
            act(),
        ];
        store.commit(&rest).unwrap();
        if version >= WITH_REMOVAL {
            let policy = Removal {
                keep_settled_count: Some(4),
                ..Removal::default()
            };
            store.remove_settled(&policy, 3).unwrap();
            n_settled = 4;
        }
        drop(store);
        take_back(directory.path(), version, RUNS.migrations.len());

        let mut store = open(&directory);
        let converted = store.opening().converted.unwrap();
        assert_eq!(
            (converted.n_executions, converted.n_runs),
            (n_settled as u64 + 2, 0)
        );
        let examined = Examiner::open(directory.path())
            .unwrap()
            .examine_all(&mut |_| {})
            .unwrap();
        assert!(examined.is_clean(), "version {version}: {examined:?}");
        let reader = store.reader().unwrap();
        for (number, sample) in (1u64..).zip(&samples[..5]).skip(5 - n_settled) {
            let mut expected = sample.settled(sample.accepted(number), 2);
            if version < WITH_OUTLINES {
                expected.summary.outline = None;
            }
            let execution = reader.execution(sample.execution_id()).unwrap().unwrap();
            assert_eq!(execution, expected, "version {version}");
            let audit = reader.audit(sample.execution_id()).unwrap().unwrap();
            assert_eq!(audit, sample.audit, "version {version}");
        }
        let removed = reader.removed(samples[0].execution_id()).unwrap();
        assert_eq!(removed.is_some(), version >= WITH_REMOVAL, "version {version}");
        let remembered = reader.remembered_actions().unwrap();
        assert_eq!(
            remembered,
            if version >= WITH_ACTIONS {
                vec![memory]
            } else {
                vec![]
            }
        );
        let acts = reader
            .operator_actions(&OperatorFilter::default(), None, 9)
            .unwrap();
        assert_eq!(acts.len(), usize::from(version >= WITH_OPERATORS));
        let counts = reader.counts().unwrap();
        assert_eq!(
            (counts.queued, counts.running, counts.settled),
            (1, 1, n_settled as u64)
        );
        // And it goes on.
        let more = Sample::new(8);
        let batch = [samples[5].start(), samples[6].settle(1), more.accept(), act()];
        let numbers = [6, 7, 8, acts.len() as u64 + 1].map(|number| Outcome::Done { number });
        assert_eq!(store.commit(&batch).unwrap(), numbers, "version {version}");
    }
}
