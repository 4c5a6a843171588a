//! Who exports, as every message says it.

use crate::attributes::text;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;

/// Who exports.
#[derive(Clone, Debug)]
pub struct Service {
    /// `service.name`.
    pub name: String,
    /// `service.version`.
    pub version: &'static str,
}

impl Service {
    pub(crate) fn resource(&self) -> Resource {
        Resource {
            attributes: vec![
                text("service.name", self.name.as_str()),
                text("service.version", self.version),
            ],
            ..Resource::default()
        }
    }

    pub(crate) fn scope(&self) -> InstrumentationScope {
        InstrumentationScope {
            name: "escapement".to_owned(),
            version: self.version.to_owned(),
            ..InstrumentationScope::default()
        }
    }
}
