//! The calls. Each reads its metadata anew, so nothing is kept between them.

use crate::looks::{Busy, Looks, Source};
use crate::metadata::{Pool, invalid};
use escapement_wire::externalscaler::external_scaler_server::ExternalScaler;
use escapement_wire::externalscaler::{
    GetMetricSpecResponse, GetMetricsRequest, GetMetricsResponse, IsActiveResponse, MetricSpec, MetricValue,
    ScaledObjectRef,
};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

/// The service. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Scaler {
    looks: Arc<Looks>,
    closing: watch::Receiver<bool>,
}

impl Scaler {
    /// Over what the engine says. `closing`: true once streams must end.
    pub fn new(source: Arc<dyn Source>, closing: watch::Receiver<bool>) -> Self {
        Self {
            looks: Arc::new(Looks::new(source)),
            closing,
        }
    }

    async fn demand(&self, pool: &Pool) -> Result<u64, Status> {
        Ok(pool.demand(&self.looks.now().await?))
    }
}

#[tonic::async_trait]
impl ExternalScaler for Scaler {
    type StreamIsActiveStream = ReceiverStream<Result<IsActiveResponse, Status>>;

    async fn is_active(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<IsActiveResponse>, Status> {
        let pool = Pool::of(request.get_ref())?;
        let result = self.demand(&pool).await? > 0;
        Ok(Response::new(IsActiveResponse { result }))
    }

    async fn stream_is_active(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<Self::StreamIsActiveStream>, Status> {
        let pool = Pool::of(request.get_ref())?;
        let looks = self.looks.follow();
        let (pushed, stream) = mpsc::channel(1);
        let mut closing = self.closing.clone();
        tokio::spawn(async move {
            // Biased: an end comes before another change.
            tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => {}
                () = pushed.closed() => {}
                () = push(&pool, looks, &pushed) => {}
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn get_metric_spec(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<GetMetricSpecResponse>, Status> {
        let pool = Pool::of(request.get_ref())?;
        let spec = MetricSpec {
            metric_name: METRIC.to_owned(),
            target_size: (pool.target as i64).max(1),
            target_size_float: pool.target,
        };
        Ok(Response::new(GetMetricSpecResponse {
            metric_specs: vec![spec],
        }))
    }

    async fn get_metrics(
        &self,
        request: Request<GetMetricsRequest>,
    ) -> Result<Response<GetMetricsResponse>, Status> {
        let GetMetricsRequest {
            scaled_object_ref,
            metric_name,
        } = request.into_inner();
        let pool = Pool::of(&scaled_object_ref.unwrap_or_default())?;
        if metric_name != METRIC {
            return Err(invalid("metricName", &format!("must be {METRIC}")));
        }
        let demand = self.demand(&pool).await?;
        let value = MetricValue {
            metric_name,
            metric_value: i64::try_from(demand).unwrap_or(i64::MAX),
            metric_value_float: demand as f64,
        };
        Ok(Response::new(GetMetricsResponse {
            metric_values: vec![value],
        }))
    }
}

/// Pushes whether there is anything to do, now and whenever it changes, until nobody takes it any more. Changes that come while one is
/// not taken yet count as one.
async fn push(
    pool: &Pool,
    mut looks: watch::Receiver<Option<Busy>>,
    pushed: &mpsc::Sender<Result<IsActiveResponse, Status>>,
) {
    let mut told = None;
    loop {
        let is_active = looks
            .borrow_and_update()
            .as_ref()
            .map(|busy| pool.is_active(busy));
        if let Some(result) = is_active
            && told != is_active
        {
            told = is_active;
            if pushed.send(Ok(IsActiveResponse { result })).await.is_err() {
                return;
            }
        }
        if looks.changed().await.is_err() {
            return;
        }
    }
}

const METRIC: &str = "escapement-demand";
