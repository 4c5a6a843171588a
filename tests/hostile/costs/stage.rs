//! Where costs are measured: an orchestrator with no other caller and no other worker, and the rows so far.

use super::{Cost, Kind};
use crate::den::Den;
use crate::shares::Shares;
use crate::slowness::slowness;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use tonic::transport::Channel;

/// A request that is made as often as it is asked for.
macro_rules! ask {
    ($client:expr, $method:ident, $request:expr) => {{
        let (mut client, request) = ($client.clone(), $request);
        async move |_| drop(client.$method(request.clone()).await.unwrap())
    }};
}

/// The same with a stream for an answer, all of which is read.
macro_rules! drain {
    ($client:expr, $method:ident, $request:expr) => {{
        let (mut client, request) = ($client.clone(), $request);
        async move |_| {
            let mut told = client.$method(request.clone()).await.unwrap().into_inner();
            while told.message().await.unwrap().is_some() {}
        }
    }};
}

pub(super) use {ask, drain};

pub(super) struct Stage {
    pub(super) den: Den,
    pub(super) plans: PlanExecutionServiceClient<Channel>,
    costs: Vec<Cost>,
}

impl Stage {
    pub(super) async fn start() -> Self {
        let mut den = Den::start_alone(|settings| {
            settings
                .flag("--max-running-executions", 64)
                .flag("--registration-grace-ms", 3_600_000)
        })
        .await;
        den.stop_canary().await;
        let plans = PlanExecutionServiceClient::new(den.channel().await).max_decoding_message_size(64 << 20);
        Self {
            den,
            plans,
            costs: Vec::new(),
        }
    }

    /// Makes the request `n_times`, one after the other, and notes what one of them took.
    pub(super) async fn cost(&mut self, kind: Kind, n_times: u32, mut request: impl AsyncFnMut(u32)) {
        let process = self.den.orchestrator.process.id();
        // What came before is over.
        let _before = Shares::since(Shares::default(), process).await;
        let slow_before = slowness();
        let before = Shares::of(process);
        for n in 0..n_times {
            request(n).await;
        }
        let each = Shares::since(before, process).await.each_of(n_times);
        let slowness = slow_before.max(slowness());
        let cost = Cost { kind, each, slowness };
        eprintln!("{}", cost.line());
        self.costs.push(cost);
    }

    /// Ends it at once: the queue would hold up a drain.
    pub(super) fn finish(mut self) -> Vec<Cost> {
        assert!(self.den.orchestrator.process.is_running(), "the process lives");
        self.den.orchestrator.process.kill().unwrap();
        self.costs
    }
}
