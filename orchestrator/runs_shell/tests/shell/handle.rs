//! The thread of runs on a store in memory: the answers to a caller, and their times. Effects are performed
//! by the test.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use crate::world::{World, call, create, document, id, list, new_run, step};
use escapement_model::opaque::StructBuilder;
use escapement_model::{Namespace, Opaque};
use escapement_run::spec::Notices;
use escapement_run::{Input, RefusedReason, ShownState};
use escapement_runs::stream_of_user;
use escapement_runs_host::{Links, RunsHost, event};
use escapement_runs_shell::{CallError, Condition, Fork, KeepSteps, Outgoing, Returned};
use escapement_store::runs::{DefinitionKind, RunReader, RunStore};
use escapement_store_kit::MemoryFault;

fn two_steps() -> Opaque {
    document(list([
        step("a", "tool_call", call("x.a")),
        step("b", "tool_call", call("x.b")),
    ]))
}

#[tokio::test]
async fn a_run_is_durable_when_its_caller_has_it_and_its_attempts_leave_afterwards() {
    let mut world = World::new();
    let created = world.handle.create(create(id(1), &two_steps())).await.unwrap();
    assert!(created.is_new);
    let stored = world.handle.readers().read(|reader| reader.summary(id(1)));
    assert!(stored.await.unwrap().is_some());
    for _ in 0..2 {
        world.settle_next().await;
    }
    world.ended(id(1), ShownState::Completed).await;
}

#[tokio::test]
async fn a_repeated_request_has_the_run_that_it_made_and_another_one_is_refused() {
    let world = World::new();
    let first = world.handle.create(create(id(1), &two_steps())).await.unwrap();
    let again = world.handle.create(create(id(1), &two_steps())).await.unwrap();
    assert_eq!((again.run_id, again.is_new), (first.run_id, false));
    let mut other = create(id(1), &two_steps());
    other.request.as_mut().unwrap().digest = [9; 32];
    assert_eq!(world.handle.create(other).await, Err(CallError::RequestIdReused));
}

#[tokio::test]
async fn an_input_waits_for_its_condition_and_says_what_is_wrong_with_its_run() {
    let world = World::new();
    world.handle.create(create(id(1), &two_steps())).await.unwrap();
    let cancel = || Input::Cancel {
        reason: "user".to_owned(),
    };
    let seen = world.handle.look(id(1), |run, _| run.state().sequence).await;
    let stale = Condition {
        last_sequence: Some(seen.clone().unwrap() - 1),
        ..Condition::default()
    };
    let refused = world.handle.input(id(1), stale, cancel()).await;
    assert_eq!(refused, Err(CallError::EtagMismatch));
    let fresh = Condition {
        last_sequence: Some(seen.unwrap()),
        ..Condition::default()
    };
    world.handle.input(id(1), fresh, cancel()).await.unwrap();
    let ended = world.handle.input(id(1), Condition::default(), cancel()).await;
    assert!(
        matches!(ended, Err(CallError::Refused(RefusedReason::RunEnded, _))),
        "{ended:?}"
    );
    let unknown = world.handle.input(id(2), Condition::default(), cancel()).await;
    assert_eq!(unknown, Err(CallError::NotFound));
    let looked = world.handle.look(id(2), |_, _| ()).await;
    assert_eq!(looked, Err(CallError::NotFound));
}

#[tokio::test]
async fn who_follows_hears_of_every_entry_and_of_the_stop() {
    let mut world = World::new();
    world.handle.create(create(id(1), &two_steps())).await.unwrap();
    let mut follow = world.handle.follow(id(1));
    let before = world
        .handle
        .look(id(1), |run, _| run.state().sequence)
        .await
        .unwrap();
    world.settle_next().await;
    assert!(follow.moved().await.unwrap() > before);
    world.handle.stop();
    assert_eq!(follow.moved().await, Err(CallError::Stopping));
    assert_eq!(world.handle.follow(id(1)).moved().await, Err(CallError::Stopping));
    let late = world.handle.create(create(id(3), &two_steps())).await;
    assert_eq!(late, Err(CallError::Stopping));
}

// RUN-8.8
#[tokio::test]
async fn a_fork_of_an_ended_run_keeps_its_large_outputs_and_repeats_nothing() {
    let mut world = World::new();
    let large = StructBuilder::new().text("text", &"x".repeat(100_000)).build();
    world.handle.create(create(id(1), &two_steps())).await.unwrap();
    world.settle_next_with(&large).await;
    world.settle_next().await;
    world.ended(id(1), ShownState::Completed).await;
    let fork = Fork {
        from: id(1),
        run_id: id(2),
        keep: KeepSteps::Before("b".to_owned()),
        edited: None,
        allow_repeat_effects: true,
        spec: None,
        request: None,
    };
    assert!(world.handle.fork(fork).await.unwrap().is_new);
    assert_eq!(world.settle_next().await, "x.b", "a is not called again");
    world.ended(id(2), ShownState::Completed).await;
    // The other run goes, what the fork refers to stays.
    world
        .handle
        .with_store(|store, _, now| store.remove_run(id(1), now))
        .await
        .unwrap();
    let gone = world.handle.look(id(1), |_, _| ()).await;
    assert!(
        matches!(&gone, Err(CallError::Removed(left)) if left.run_id == id(1)),
        "{gone:?}"
    );
    let kept = world.handle.look(id(2), |run, blobs| {
        let output = run.state().steps[0].units[0].output.clone().unwrap();
        blobs.blob(&output.content().unwrap()).len()
    });
    assert!(kept.await.unwrap() > 100_000);
}

#[tokio::test]
async fn a_full_store_refuses_calls_and_loses_nothing_that_it_was_told() {
    let mut world = World::new();
    world.handle.create(create(id(1), &two_steps())).await.unwrap();
    let attempt = world.next_submission().await;
    for _ in 0..2 {
        world.disk.fail_next_commit(MemoryFault::Full);
    }
    world.settle(attempt, &Opaque::default());
    // The commit that records the outcome is refused, and so are inputs that arrive before the next one.
    let mut refused = 0;
    loop {
        match world.handle.create(create(id(2), &two_steps())).await {
            Ok(_) => break,
            Err(CallError::StoreFull | CallError::Store) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 0);
    for _ in 0..3 {
        world.settle_next().await;
    }
    world.ended(id(1), ShownState::Completed).await;
    world.ended(id(2), ShownState::Completed).await;
}

#[tokio::test]
async fn what_a_fork_keeps_is_not_removed_while_the_store_is_full() {
    let mut world = World::new();
    let large = StructBuilder::new().text("text", &"x".repeat(100_000)).build();
    world.handle.create(create(id(1), &two_steps())).await.unwrap();
    world.settle_next_with(&large).await;
    world.settle_next().await;
    world.ended(id(1), ShownState::Completed).await;
    // Not the removal, which would fail for that.
    world.disk.fail_next_commit(MemoryFault::Full);
    let fork = Fork {
        from: id(1),
        run_id: id(2),
        keep: KeepSteps::Before("b".to_owned()),
        edited: None,
        allow_repeat_effects: true,
        spec: None,
        request: None,
    };
    assert_eq!(world.handle.fork(fork).await, Err(CallError::Store));
    let remove = world
        .handle
        .with_store(|store, _, now| store.remove_run(id(1), now));
    // Refused, or done once the fork is written.
    let removed = remove.await;
    assert!(
        matches!(removed, Ok(_) | Err(CallError::StoreFull)),
        "{removed:?}"
    );
    assert_eq!(world.settle_next().await, "x.b");
    world.ended(id(2), ShownState::Completed).await;
}

#[tokio::test]
async fn an_input_waits_for_one_of_many_works_on_the_store() {
    let world = World::new();
    let done = Arc::new(AtomicUsize::new(0));
    let (go, wait) = mpsc::channel::<()>();
    let handle = world.handle.clone();
    let first = tokio::spawn(async move {
        let work = move |_: &mut dyn RunStore, _: &dyn RunReader, _| {
            wait.recv().unwrap();
            Ok(())
        };
        handle.with_store(work).await
    });
    let others: Vec<_> = (0..8)
        .map(|_| {
            let (handle, done) = (world.handle.clone(), done.clone());
            tokio::spawn(async move {
                let work = move |_: &mut dyn RunStore, _: &dyn RunReader, _| {
                    done.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                };
                handle.with_store(work).await
            })
        })
        .collect();
    let (handle, done_before) = (world.handle.clone(), done.clone());
    let change = tokio::spawn(async move {
        let count = move |_: &mut RunsHost, _| Ok(done_before.load(Ordering::SeqCst));
        handle.change(0, count).await
    });
    // Each of them has said what it wants by then.
    tokio::task::yield_now().await;
    go.send(()).unwrap();
    assert_eq!(change.await.unwrap(), Ok(0));
    first.await.unwrap().unwrap();
    for other in others {
        other.await.unwrap().unwrap();
    }
    assert_eq!(done.load(Ordering::SeqCst), 8);
}

// RUN-9.4
#[tokio::test]
async fn after_a_kill_the_same_attempt_is_submitted_again() {
    let mut world = World::new();
    world.handle.create(create(id(1), &two_steps())).await.unwrap();
    let Outgoing::Submit(before) = world.next_submission().await else {
        panic!("an attempt is submitted");
    };
    let mut world = world.killed();
    let again = world.next_submission().await;
    let Outgoing::Submit(attempt) = &again else {
        panic!("an attempt is submitted");
    };
    assert_eq!(attempt.request, before.request);
    world.settle(again, &Opaque::default());
    world.settle_next().await;
    world.ended(id(1), ShownState::Completed).await;
}

#[tokio::test]
async fn a_damaged_child_is_set_aside_and_its_parent_goes_on() {
    let mut world = World::new();
    let config = StructBuilder::new().text("plan_id", "6f1d3c52-8a4e-4b7f-9c21-5e0d7a9b4c10");
    let retry = StructBuilder::new().number("max_retries", 0.0);
    let sub = step("sub", "sub_plan", config).object("retry", retry.build().as_encoded());
    let parent = document(list([sub]));
    world.handle.create(create(id(1), &parent)).await.unwrap();
    let Outgoing::FindPlan { child, .. } = world.next().await else {
        panic!("a child is made");
    };
    let of_child = new_run(id(9), &two_steps());
    let found = Ok((of_child.plan, of_child.profiles));
    let child_id = child.run_id;
    world.handle.returned(Returned::Plan(child, found));
    let attempt = world.next_submission().await;
    world.damaged.lock().unwrap().insert(child_id);
    world.settle(attempt, &Opaque::default());
    world.ended(id(1), ShownState::Failed).await;
    let why = world
        .handle
        .look(id(1), |run, _| run.state().end.clone().unwrap().error);
    let why = why.await.unwrap().unwrap();
    assert_eq!(
        (why.code.as_str(), why.message.as_str()),
        ("CHILD_FAILED", "the child run is damaged")
    );
    assert!(!world.handle.is_live(child_id));
    let cancel = Input::Cancel {
        reason: "user".to_owned(),
    };
    let refused = world.handle.input(child_id, Condition::default(), cancel).await;
    assert!(matches!(refused, Err(CallError::Damaged(_))), "{refused:?}");
}

#[tokio::test]
async fn what_else_is_written_with_a_damaged_run_goes_through() {
    let mut world = World::new();
    world.handle.create(create(id(1), &two_steps())).await.unwrap();
    let attempt = world.next_submission().await;
    world.damaged.lock().unwrap().insert(id(1));
    // One batch: two changes of the damaged run, and another run.
    let changed = world.handle.change(0, |host, now| {
        let checkpoint = || Input::Checkpoint {
            data: Opaque::default(),
        };
        host.handle(id(1), checkpoint(), now).unwrap();
        host.handle(id(1), checkpoint(), now).unwrap();
        host.create(create(id(2), &two_steps()), now).unwrap();
        Ok(())
    });
    assert_eq!(
        changed.await,
        Err(CallError::Store),
        "it is not known what went through"
    );
    world.settle(attempt, &Opaque::default());
    for _ in 0..2 {
        world.settle_next().await;
    }
    world.ended(id(2), ShownState::Completed).await;
}

#[tokio::test]
async fn a_content_that_is_lost_meanwhile_ends_nothing_but_its_run() {
    let mut world = World::new();
    let args = StructBuilder::new().text("t", "${input:/text}").build();
    let document = document(list([
        step("a", "tool_call", call("x.a")),
        step(
            "b",
            "tool_call",
            call("x.b").object("tool_args", args.as_encoded()),
        ),
    ]));
    let mut create_large = create(id(1), &document);
    create_large.run.spec.input = StructBuilder::new().text("text", &"x".repeat(100_000)).build();
    world.handle.create(create_large).await.unwrap();
    let attempt = world.next_submission().await;
    let digest = world.handle.look(id(1), |run, _| run.state().input.content());
    world.disk.lose_content(&digest.await.unwrap().unwrap());
    world.settle(attempt, &Opaque::default());
    world.handle.create(create(id(2), &two_steps())).await.unwrap();
    for _ in 0..2 {
        world.settle_next().await;
    }
    world.ended(id(2), ShownState::Completed).await;
    assert!(!world.handle.is_live(id(1)));
    let cancel = Input::Cancel {
        reason: "user".to_owned(),
    };
    let refused = world.handle.input(id(1), Condition::default(), cancel).await;
    assert!(matches!(refused, Err(CallError::Damaged(_))), "{refused:?}");
}

// TRIG-1.2
#[tokio::test]
async fn no_firing_says_that_a_damaged_run_has_started() {
    let world = World::new();
    world.damaged.lock().unwrap().insert(id(1));
    let fired = world.handle.change(0, |host, now| {
        host.create(create(id(1), &two_steps()), now).unwrap();
        let started = event(&Namespace::default(), b"started", now);
        host.define(DefinitionKind::Firing, "firing", started.clone());
        host.define(DefinitionKind::Goal, "goal", started);
        Ok(())
    });
    assert_eq!(fired.await, Err(CallError::Store), "it may be tried again");
    let read = |kind, name| {
        world
            .handle
            .readers()
            .read(move |reader| reader.definition(kind, name))
    };
    assert_eq!(read(DefinitionKind::Firing, "firing").await.unwrap(), None);
    assert!(read(DefinitionKind::Goal, "goal").await.unwrap().is_some());
}

// RUN-9.13
#[tokio::test]
async fn a_run_whose_write_is_too_large_is_set_aside_and_the_others_go_on() {
    let mut world = World::new();
    // One batch: a run with a name that no store holds, and another one.
    let changed = world.handle.change(0, |host, now| {
        let links = Links {
            goal: Some("g".repeat(2_000)),
            ..Links::default()
        };
        host.create_linked(create(id(1), &two_steps()), links, now)
            .unwrap();
        host.create(create(id(2), &two_steps()), now).unwrap();
        Ok(())
    });
    assert_eq!(
        changed.await,
        Err(CallError::Store),
        "it is not known what went through"
    );
    assert!(!world.handle.is_live(id(1)));
    for _ in 0..2 {
        world.settle_next().await;
    }
    world.ended(id(2), ShownState::Completed).await;
}

// RUN-9.6
#[tokio::test]
async fn a_run_whose_first_entry_is_too_large_is_refused_and_leaves_nothing() {
    let mut world = World::new();
    let mut large = create(id(1), &two_steps());
    large.run.spec.policy.approvers = vec!["\u{10348}".repeat(255); 2_100];
    let refused = world.handle.create(large).await;
    assert!(matches!(refused, Err(CallError::TooLarge(_))), "{refused:?}");
    world.handle.create(create(id(1), &two_steps())).await.unwrap();
    for _ in 0..2 {
        world.settle_next().await;
    }
    world.ended(id(1), ShownState::Completed).await;
}

// RUN-14.8
#[tokio::test]
async fn a_user_with_the_longest_name_is_told_of_runs_in_any_namespace() {
    let mut world = World::new();
    let mut named = create(id(1), &two_steps());
    named.run.spec.user_id = "\u{10348}".repeat(255);
    named.run.spec.namespace = "n".repeat(63);
    named.run.spec.set_notices(Notices::All);
    let (namespace, user_id) = (
        Namespace::parse(&"n".repeat(63)).unwrap(),
        named.run.spec.user_id.clone(),
    );
    world.handle.create(named).await.unwrap();
    for _ in 0..2 {
        world.settle_next().await;
    }
    world.ended(id(1), ShownState::Completed).await;
    let stream = stream_of_user(&namespace, &user_id);
    let read = move |reader: &dyn RunReader| reader.notices(&stream, 0, 100);
    let told = world.handle.readers().read(read).await.unwrap();
    assert!(told.len() > 2, "{told:?}");
}

// RUN-9.8
#[tokio::test]
async fn what_expressions_are_about_waits_on_the_thread_of_runs_if_it_is_much() {
    const ROOM: usize = 32 << 20;
    const RUNS: u8 = 10;
    let mut world = World::new();
    let condition = StructBuilder::new().text("condition", "input.text == 'x'");
    let document = document(list([step("a", "condition", condition)]));
    let text = StructBuilder::new().text("text", &"t".repeat(7 << 20)).build();
    for n in 1..=RUNS {
        let mut create = create(id(n), &document);
        create.run.spec.input = text.clone();
        world.handle.create(create).await.unwrap();
    }
    let (mut left, mut bytes, mut n_over) = (VecDeque::new(), 0, 0);
    while n_over < RUNS {
        while let Ok(outgoing) = world.outgoing.try_recv() {
            let Outgoing::Evaluate { bindings, .. } = &outgoing else {
                panic!("{outgoing:?}");
            };
            bytes += bindings.len();
            left.push_back(outgoing);
        }
        assert!(bytes <= ROOM + (8 << 20), "{bytes} bytes are on their way");
        let next = match left.pop_front() {
            Some(next) => next,
            None => world.next().await,
        };
        let Outgoing::Evaluate {
            run_id,
            evaluation,
            bindings,
            held,
            ..
        } = next
        else {
            panic!("{next:?}");
        };
        bytes = bytes.saturating_sub(bindings.len());
        drop(held);
        let result = Ok(true);
        let input = Input::Evaluated { evaluation, result };
        world.handle.returned(Returned::Input(run_id, input));
        n_over += 1;
    }
}
