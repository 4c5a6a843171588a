//! Runs to begin with: ordinary work, said in the bytes of this target.

use crate::seeds;
use prost::Message;

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    // A worker with all actions and room for four; a plan; store answers; time.
    let open = [10, 0, 0, 0, 0, 7, 4, 0, 1];
    let store = [92, 0];
    let started = [16, 0, 0, 0, 0];
    let completed = [16, 0, 80, 0, 0, 0];
    let failed = [16, 0, 80, 0, 0, 130];
    let rejected = [16, 0, 180, 0, 0, 2, 0, 0];
    let heartbeat = [16, 0, 150, 1, 1];
    let moment = [76, 100];
    let second = [76, 200];
    let mut all = Vec::new();
    for plan in 0..10 {
        for how in [&completed[..], &failed, &rejected] {
            let step = [&started[..], how, &store, &moment].concat();
            let run = [
                &open[..],
                &[0, plan],
                &store,
                &store,
                &step.repeat(8),
                &heartbeat,
                &second,
            ]
            .concat();
            all.push(run);
        }
        let ask: Vec<u8> = (0..5).flat_map(|kind| [112, plan, kind, 0]).collect();
        all.push([&open[..], &[0, plan], &store, &ask, &second.repeat(8)].concat());
    }
    // Two workers, a break, a return; a drain; an operator.
    let back = [10, 0, 0, 101, 7, 4, 1, 0, 2, 2];
    all.push(
        [
            &open[..],
            &[0, 1],
            &store,
            &store,
            &started,
            &[72, 0],
            &back,
            &completed,
            &store,
        ]
        .concat(),
    );
    all.push(
        [
            &open[..],
            &[0, 1],
            &store,
            &[124, 77],
            &store,
            &started,
            &completed,
            &store,
        ]
        .concat(),
    );
    all.push(
        [
            &open[..],
            &[0, 4],
            &store,
            &[120, 0],
            &[120, 4],
            &[120, 8],
            &second,
        ]
        .concat(),
    );
    for message in seeds::worker_messages() {
        let mut message = message;
        message.seq = 0;
        let frame = message.encode_to_vec();
        if let Ok(length) = u8::try_from(frame.len()) {
            all.push([&open[..], &[16, 0, 240, length], &frame].concat());
        }
    }
    all
}
