//! What workers say in the world of the stories, and what they were sent.

use super::World;
use escapement_contract::Outcome;
use escapement_engine::{
    AckVerdict, ActionSpec, Assignment, AttemptReport, CancelReason, FromWorker, Hello, InFlight,
    InFlightPhase, Input, KeepOrStop, RejectReason, SessionErrorCode, SessionKey, ToWorker,
};
use escapement_model::{AttemptToken, InstanceId, Opaque, SessionId};
use std::collections::BTreeMap;

impl World {
    pub fn worker(&mut self, session: u64, max_in_flight: u32, actions: &[&str]) {
        let actions = actions.iter().map(|name| action(name)).collect();
        self.hello(session, session as u8, max_in_flight, actions, Vec::new());
    }

    pub fn hello(
        &mut self,
        session: u64,
        instance: u8,
        max_in_flight: u32,
        actions: Vec<ActionSpec>,
        in_flight: Vec<InFlight>,
    ) {
        let mut hello = hello_of(instance, &format!("worker-{instance}"));
        (hello.actions, hello.max_in_flight, hello.in_flight) = (actions, max_in_flight, in_flight);
        self.open(session, hello);
    }

    pub fn named_worker(&mut self, session: u64, worker_id: &str) {
        self.open(session, hello_of(session as u8, worker_id));
    }

    /// A session of a worker that reads its welcome and names the one that it read before.
    pub fn open(&mut self, session: u64, hello: Hello) {
        let instance_id = hello.instance_id;
        self.open_unheard(
            session,
            Hello {
                previous_session_id: self.welcomed.get(&instance_id).copied(),
                ..hello
            },
        );
        if self.log_has(&format!("send {session} welcome")) {
            self.welcomed.insert(instance_id, session_id(session));
        }
    }

    /// The hello as it is; the world takes the answer for one that nobody has read.
    pub fn open_unheard(&mut self, session: u64, hello: Hello) {
        self.input(Input::SessionOpened {
            session: SessionKey(session),
            session_id: session_id(session),
        });
        self.say(session, FromWorker::Hello(hello));
    }

    pub fn say(&mut self, session: u64, message: FromWorker) {
        let seq = self.seq_in.entry(session).or_default();
        *seq += 1;
        let seq = *seq;
        self.input(Input::SessionMessage {
            session: SessionKey(session),
            seq,
            message,
        });
    }

    pub fn close(&mut self, session: u64) {
        self.input(Input::SessionClosed(SessionKey(session)));
    }

    /// Everything handed to a session since it was asked last.
    pub fn assignments(&mut self, session: u64) -> Vec<Assignment> {
        let mut taken = Vec::new();
        self.sent.retain(|(to, message)| match message {
            ToWorker::Assignments(items) if *to == session => {
                taken.extend(items.clone());
                false
            }
            _ => true,
        });
        taken
    }

    pub fn one_assignment(&mut self, session: u64) -> Assignment {
        let mut all = self.assignments(session);
        assert_eq!(
            all.len(),
            1,
            "one assignment for session {session}, log: {:#?}",
            self.log
        );
        all.remove(0)
    }

    /// Completes what session 1 is handed, one after the other; gives the names of the plans.
    pub fn serve(&mut self, n_assignments: usize) -> Vec<String> {
        let one = |_| {
            let assignment = self.one_assignment(1);
            self.complete(1, assignment.token);
            assignment.request.plan().name().to_owned()
        };
        (0..n_assignments).map(one).collect()
    }

    fn acks(
        &mut self,
        session: u64,
        started: Vec<AttemptToken>,
        rejected: Vec<(AttemptToken, RejectReason)>,
        stopped: Vec<AttemptToken>,
    ) {
        let acks = FromWorker::AttemptAcks {
            started,
            rejected,
            stopped,
        };
        self.say(session, acks);
    }

    pub fn started(&mut self, session: u64, token: AttemptToken) {
        self.acks(session, vec![token], vec![], vec![]);
    }

    pub fn reject(&mut self, session: u64, token: AttemptToken, reason: RejectReason) {
        self.acks(session, vec![], vec![(token, reason)], vec![]);
    }

    pub fn stopped(&mut self, session: u64, token: AttemptToken) {
        self.acks(session, vec![], vec![], vec![token]);
    }

    pub fn complete(&mut self, session: u64, token: AttemptToken) {
        self.outcomes(session, vec![(token, success())]);
    }

    pub fn report(&mut self, session: u64, token: AttemptToken, outcome: Outcome) {
        self.outcomes(session, vec![(token, AttemptReport::Outcome(outcome))]);
    }

    pub fn outcomes(&mut self, session: u64, items: Vec<(AttemptToken, AttemptReport)>) {
        let unreadable = vec![];
        self.say(session, FromWorker::Outcomes { items, unreadable });
    }

    /// A heartbeat that says nothing about attempts.
    pub fn alive(&mut self, session: u64) {
        let in_flight_hash = None;
        self.say(session, FromWorker::Heartbeat { n: 1, in_flight_hash });
    }

    pub fn capacity(&mut self, session: u64, revision: u64, max_in_flight: u32, actions: &[(&str, u32)]) {
        let per_action = actions.iter().map(|(name, n)| ((*name).to_owned(), *n));
        let capacity = FromWorker::Capacity {
            revision,
            max_in_flight,
            per_action: per_action.collect(),
        };
        self.say(session, capacity);
    }

    pub fn register(&mut self, session: u64, revision: u64, actions: Vec<ActionSpec>) {
        self.say(session, FromWorker::RegisterActions { revision, actions });
    }

    pub fn heartbeat(&mut self, session: u64, has: &[AttemptToken]) {
        let hash = has
            .iter()
            .fold(0, |hash, token| hash ^ u128::from_be_bytes(*token.as_bytes()));
        let in_flight_hash = Some(hash.to_be_bytes());
        self.say(session, FromWorker::Heartbeat { n: 1, in_flight_hash });
    }

    /// Everything sent to a session since it was taken last, assignments included.
    pub fn take_sent(&mut self, session: u64) -> Vec<ToWorker> {
        let (taken, kept) = std::mem::take(&mut self.sent)
            .into_iter()
            .partition::<Vec<_>, _>(|(to, _)| *to == session);
        self.sent = kept;
        taken.into_iter().map(|(_, message)| message).collect()
    }

    fn take_lists<T>(&mut self, session: u64, list: impl Fn(ToWorker) -> Option<Vec<T>>) -> Vec<T> {
        let sent = self.take_sent(session).into_iter();
        sent.filter_map(list).flatten().collect()
    }

    /// The answers to outcomes. This and the next three forget whatever else the session was sent so far.
    pub fn take_verdicts(&mut self, session: u64) -> Vec<AckVerdict> {
        self.take_lists(session, |message| match message {
            ToWorker::OutcomeAcks(items) => Some(items.iter().map(|(_, verdict)| *verdict).collect()),
            _ => None,
        })
    }

    pub fn take_cancels(&mut self, session: u64) -> Vec<(AttemptToken, CancelReason)> {
        self.take_lists(session, |message| match message {
            ToWorker::Cancels(items) => Some(items.iter().map(|item| (item.token, item.reason)).collect()),
            _ => None,
        })
    }

    /// What a session is to do with the attempts that its hello lists.
    pub fn take_welcome(&mut self, session: u64) -> Vec<(AttemptToken, KeepOrStop)> {
        self.take_lists(session, |message| match message {
            ToWorker::Welcome(welcome) => Some(welcome.verdicts),
            _ => None,
        })
    }

    pub fn take_errors(&mut self, session: u64) -> Vec<SessionErrorCode> {
        self.take_lists(session, |message| match message {
            ToWorker::SessionError { code, .. } => Some(vec![code]),
            _ => None,
        })
    }
}

pub fn session_id(session: u64) -> SessionId {
    SessionId::new(u128::from(session).to_be_bytes())
}

pub fn hello_of(instance: u8, worker_id: &str) -> Hello {
    Hello {
        protocol_min: 1,
        protocol_max: 1,
        worker_id: worker_id.into(),
        instance_id: InstanceId::new([instance; 16]),
        actions: Vec::new(),
        max_in_flight: 0,
        in_flight: Vec::new(),
        labels: BTreeMap::new(),
        build: "test".into(),
        hello_number: 0,
        previous_session_id: None,
        owner: "".into(),
    }
}

pub fn action(name: &str) -> ActionSpec {
    ActionSpec {
        name: name.into(),
        max_in_flight: 0,
        description: String::new(),
        input_schema: String::new(),
        waits: false,
        traits: bytes::Bytes::new(),
    }
}

pub fn in_flight(token: AttemptToken, phase: InFlightPhase) -> InFlight {
    InFlight { token, phase }
}

pub fn success() -> AttemptReport {
    AttemptReport::Outcome(Outcome::completed(Opaque::default()))
}

pub fn token_of(assignments: &[Assignment]) -> Vec<AttemptToken> {
    assignments.iter().map(|assignment| assignment.token).collect()
}
