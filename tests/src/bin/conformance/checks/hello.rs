//! What a worker says first.

use std::time::Duration;

use escapement_tests::Fault;
use escapement_wire::worker::v1::session_response::Message as ToWorker;

use crate::catalogue::{Check, check};
use crate::messages::hex;
use crate::play::{HELLO_LIMIT, Play, START_LIMIT, TOKEN, demand};
use crate::scene::Scene;

pub(super) const CHECKS: &[Check] = &[
    check!(
        hello_comes_within_5_s,
        "`Hello` comes with the number 1 within 5 s of the call.",
        "session.proto, Hello: Sent first and once, within 5 s."
    ),
    check!(
        hello_speaks_revision_1,
        "The range of protocol revisions in `Hello` holds 1.",
        "session.proto, Hello.protocol_min: The lowest protocol revision that the worker speaks. This page is revision 1."
    ),
    check!(
        hello_names_the_worker,
        "`worker_id` has 1 to 255 code points, there are at most 64 labels, and action names have 1 to 100.",
        "session.proto, Hello.worker_id: A label for people, 1 to 255 code points."
    ),
    check!(
        hello_offers_the_actions,
        "The worker offers `echo`, `fail` and `delay`, each with room for 4, and `max_in_flight` is at least 4.",
        "PROTOCOL.md, section 17: The worker offers these actions, with a `max_in_flight` of at least 4:"
    ),
    check!(
        hello_brings_nothing_at_first,
        "The first `Hello` of a process lists nothing in flight and names no session and no boot.",
        "session.proto, Hello.previous_session_id: The session that broke, if any, 16 bytes."
    ),
    check!(
        instance_id_is_the_process,
        "`instance_id` is 16 bytes, the same after a break, another after a new start.",
        "session.proto, Hello.instance_id: Random per process start, 16 bytes."
    ),
    check!(
        hello_names_the_broken_session,
        "After a break `Hello` names the session that broke and the boot that it belonged to.",
        "session.proto, Hello.boot_id_seen: `Welcome.boot_id` of that session, 16 bytes."
    ),
    check!(
        the_token_is_sent,
        "Every call carries `authorization: Bearer TOKEN` with the token from the environment.",
        "PROTOCOL.md, section 2: `authorization: Bearer TOKEN` if the worker was given a token, else nothing"
    ),
];

async fn hello_comes_within_5_s(scene: Scene) -> Result<(), Fault> {
    let mut play = Play::start(&scene).await?;
    let session = play.stage.stream(START_LIMIT).await?;
    let first = session.expect("a first message within 5 s", HELLO_LIMIT, |log| {
        log.entries.first().cloned()
    });
    let first = first.await?;
    demand(first.seq == 1, || format!("expected seq 1, got {}", first.seq))?;
    let after = first.at - session.log().opened;
    demand(after <= HELLO_LIMIT, || {
        format!("expected `Hello` within 5 s, it took {after:?}")
    })?;
    demand(session.log().hello().is_some(), || {
        "expected `Hello`, got something else".to_owned()
    })
}

async fn hello_speaks_revision_1(scene: Scene) -> Result<(), Fault> {
    let (_, hello) = Play::start(&scene).await?.greeted().await?;
    let range = hello.protocol_min..=hello.protocol_max;
    demand(range.contains(&1), || {
        format!("expected a range with 1, got {range:?}")
    })
}

async fn hello_names_the_worker(scene: Scene) -> Result<(), Fault> {
    let (_, hello) = Play::start(&scene).await?.greeted().await?;
    let n = hello.worker_id.chars().count();
    demand((1..=255).contains(&n), || {
        format!("expected 1 to 255 code points, got {n}")
    })?;
    let n = hello.labels.len();
    demand(n <= 64, || format!("expected at most 64 labels, got {n}"))?;
    let bad = hello
        .actions
        .iter()
        .find(|action| !(1..=100).contains(&action.name.chars().count()));
    demand(bad.is_none(), || {
        format!("expected names of 1 to 100 code points, got {bad:?}")
    })?;
    let unbounded = hello
        .actions
        .iter()
        .find(|action| action.waits && action.max_in_flight == 0);
    demand(unbounded.is_none(), || {
        format!("expected a bound where an action waits, got {unbounded:?}")
    })
}

async fn hello_offers_the_actions(scene: Scene) -> Result<(), Fault> {
    let (_, hello) = Play::start(&scene).await?.greeted().await?;
    let max = hello.max_in_flight;
    demand(max >= 4, || {
        format!("expected max_in_flight of at least 4, got {max}")
    })?;
    for name in ["echo", "fail", "delay"] {
        let action = hello.actions.iter().find(|action| action.name == name);
        let action = action.ok_or_else(|| format!("expected the action `{name}`"))?;
        let room = action.max_in_flight;
        demand(room == 0 || room >= 4, || {
            format!("expected room for 4 of `{name}`, got {room}")
        })?;
    }
    Ok(())
}

async fn hello_brings_nothing_at_first(scene: Scene) -> Result<(), Fault> {
    let (_, hello) = Play::start(&scene).await?.greeted().await?;
    let n = hello.in_flight.len();
    demand(n == 0, || format!("expected nothing in flight, got {n}"))?;
    let before = [&hello.previous_session_id, &hello.boot_id_seen];
    let named = before.into_iter().any(|id| id.iter().any(|byte| *byte != 0));
    demand(!named, || {
        "expected no session and no boot from before, got one".to_owned()
    })
}

async fn instance_id_is_the_process(scene: Scene) -> Result<(), Fault> {
    let mut play = Play::start(&scene).await?;
    let (session, first) = play.greeted().await?;
    session.send(ToWorker::Welcome(play.welcome_for(&first, Default::default())));
    let n = first.instance_id.len();
    demand(n == 16, || format!("expected 16 bytes, got {n}"))?;
    session
        .expect("a heartbeat", Duration::from_secs(3), |log| {
            log.heartbeats().next().map(|_| ())
        })
        .await?;
    session.cut();
    let (_, again) = play.greeted().await?;
    let (one, other) = (hex(&first.instance_id), hex(&again.instance_id));
    demand(one == other, || {
        format!("expected {one} after a break, got {other}")
    })?;
    drop(play);
    let (_, anew) = Play::start(&scene).await?.greeted().await?;
    demand(anew.instance_id != first.instance_id, || {
        format!("expected another id than {one} after a new start")
    })
}

async fn hello_names_the_broken_session(scene: Scene) -> Result<(), Fault> {
    let mut play = Play::start(&scene).await?;
    let (session, hello) = play.greeted().await?;
    let welcome = play.welcome_for(&hello, Default::default());
    session.send(ToWorker::Welcome(welcome.clone()));
    session
        .expect("a heartbeat", Duration::from_secs(3), |log| {
            log.heartbeats().next().map(|_| ())
        })
        .await?;
    session.cut();
    let (_, hello) = play.greeted().await?;
    let (got, wanted) = (hex(&hello.previous_session_id), hex(&welcome.session_id));
    demand(got == wanted, || {
        format!("expected the session {wanted}, got {got:?}")
    })?;
    let (got, wanted) = (hex(&hello.boot_id_seen), hex(&welcome.boot_id));
    demand(got == wanted, || {
        format!("expected the boot {wanted}, got {got:?}")
    })
}

async fn the_token_is_sent(scene: Scene) -> Result<(), Fault> {
    let mut play = Play::start(&scene).await?;
    let (session, _) = play.greeted().await?;
    session.cut();
    let (again, _) = play.greeted().await?;
    for session in [session, again] {
        let got = session.authorization();
        // The name of a scheme is not case-sensitive; the token is.
        let scheme_and_token = got.and_then(|value| value.split_once(' '));
        let right = scheme_and_token.is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case("bearer") && token.trim_start() == TOKEN
        });
        demand(right, || format!("expected `Bearer {TOKEN}`, got {got:?}"))?;
    }
    Ok(())
}
