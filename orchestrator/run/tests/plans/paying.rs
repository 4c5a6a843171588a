//! Rendering with a budget that pays for what a test asks for.

use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::opaque::WalkBudget;
use escapement_run::plan::Template;
use escapement_run::template::{self, RenderError, Sources};

pub(crate) fn render_object(template: &Opaque, sources: &dyn Sources) -> Result<Opaque, RenderError> {
    template::render_object(template, sources, &mut WalkBudget::new(BUDGET))
}

pub(crate) fn render_value(template: &Template, sources: &dyn Sources) -> Result<Bytes, RenderError> {
    template::render_value(template, sources, &mut WalkBudget::new(BUDGET))
}

pub(crate) fn render_text(template: &str, sources: &dyn Sources) -> Result<String, RenderError> {
    template::render_text(template, sources, &mut WalkBudget::new(BUDGET))
}

pub(crate) const BUDGET: usize = escapement_run::TEMPLATE_WORK_MAX;
