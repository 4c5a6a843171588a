//! Figures to a collector, again and again. Delays nobody, and keeps nothing between two times.

use crate::attributes::{nanoseconds, text};
use crate::collector::{Collector, answered};
use crate::export::CannotStart;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::losses::Losses;
use crate::metrics::metrics;
use crate::service::Service;
use crate::signal::Signal;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::metrics::v1::{Metric, ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::{MissedTickBehavior, interval};
use tonic::transport::Channel;
use tracing::{error, info};

/// Sends figures to a collector at an interval, those of the same text that a scrape gets.
#[derive(Debug)]
pub struct Push {
    collector: Collector,
    service: Service,
    interval: Duration,
    /// Time at which the figures began at 0, in Unix nanoseconds.
    began: u64,
    losses: Losses,
}

impl Push {
    /// Makes ready to send what counts from now on.
    ///
    /// # Errors
    /// [`CannotStart::Flag`].
    pub fn new(collector: Collector, service: Service, interval: Duration) -> Result<Self, CannotStart> {
        Ok(Self {
            collector: collector.checked()?,
            service,
            interval,
            began: now(),
            losses: Losses::of(Signal::Metrics),
        })
    }

    /// Asks for the figures, in OpenMetrics, and sends them; until it is dropped. What is not taken is not sent again: the next
    /// figures count that, too.
    pub async fn run<F: Future<Output = String> + Send>(self, figures: impl Fn() -> F + Send) {
        let channel = match self.collector.channel() {
            Ok(channel) => channel,
            Err(problem) => {
                // The files were there a moment ago.
                error!(problem, "metrics cannot be exported");
                return;
            }
        };
        info!(endpoint = self.collector.endpoint, interval = ?self.interval, "metrics exported");
        // Workers that push to one collector have the same name, and are told apart.
        let instance = getrandom::u64().map_or_else(|_| String::new(), |drawn| format!("{drawn:016x}"));
        let mut resource = self.service.resource();
        resource.attributes.push(text("service.instance.id", instance));
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first one is at once: there is nothing to tell yet.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            let metrics = metrics(&figures().await, &(self.began..now()));
            if let Err(why) = self.send_all(&channel, &resource, metrics).await {
                self.losses.lost(1, &why);
            }
        }
    }

    async fn send_all(&self, channel: &Channel, resource: &Resource, all: Vec<Metric>) -> Result<(), String> {
        let (mut message, mut bytes) = (Vec::new(), 0);
        for metric in all {
            let size = metric.encoded_len();
            if !message.is_empty() && bytes + size > MESSAGE_BYTES_MAX {
                self.send(channel, resource, std::mem::take(&mut message)).await?;
                bytes = 0;
            }
            bytes += size;
            message.push(metric);
        }
        self.send(channel, resource, message).await
    }

    async fn send(&self, channel: &Channel, resource: &Resource, metrics: Vec<Metric>) -> Result<(), String> {
        let message = ExportMetricsServiceRequest {
            resource_metrics: vec![ResourceMetrics {
                resource: Some(resource.clone()),
                scope_metrics: vec![ScopeMetrics {
                    scope: Some(self.service.scope()),
                    metrics,
                    ..ScopeMetrics::default()
                }],
                ..ResourceMetrics::default()
            }],
        };
        let request = self.collector.request(message)?;
        let mut client = MetricsServiceClient::new(channel.clone());
        match answered(client.export(request)).await?.partial_success {
            Some(partial) if partial.rejected_data_points > 0 => Err(format!(
                "the collector rejected {} data points: {}",
                partial.rejected_data_points, partial.error_message
            )),
            Some(_) | None => Ok(()),
        }
    }
}

/// Unix nanoseconds, to the millisecond.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    nanoseconds(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
