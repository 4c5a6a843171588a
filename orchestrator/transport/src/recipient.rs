//! The caller who gets the answers of a stream. Sends nothing.

use crate::call_class::CallClass;
use crate::connection_abort::ConnectionAbort;
use crate::refusal::Refusal;
use crate::response_budget::{ResponseBudget, ResponsePermit, TakeDeadline};
use crate::share::{CallTenant, Tenant};
use tonic::Extensions;

/// The caller, and the budget in which counts what it has not read yet.
#[derive(Clone, Debug)]
pub struct Recipient {
    answers: ResponseBudget,
    class: CallClass,
    tenant: Tenant,
    /// `None` inside of the process.
    abort: Option<ConnectionAbort>,
}

impl Recipient {
    /// Returns the caller of a call of this class with these extensions.
    pub fn new(answers: &ResponseBudget, class: CallClass, extensions: &Extensions) -> Self {
        Self {
            answers: answers.clone(),
            class,
            tenant: CallTenant::of(extensions),
            abort: extensions.get().cloned(),
        }
    }

    /// Returns whose answers they are.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Takes a permit for so many bytes. A small answer needs none.
    ///
    /// # Errors
    /// All bytes are taken, or the share of the tenant is.
    pub fn take(&self, bytes: usize) -> Result<ResponsePermit, Refusal> {
        self.answers.take_of(&self.tenant, self.class, bytes)
    }

    /// Takes a permit as [`Recipient::take`] does, and waits for it.
    ///
    /// # Errors
    /// There was none for longer than an answer may be in transit.
    pub async fn wait(&self, bytes: usize) -> Result<ResponsePermit, Refusal> {
        self.answers.wait(&self.tenant, self.class, bytes).await
    }

    /// Counts the permit of an answer with those of the tenant, as [`Recipient::take`] does.
    ///
    /// # Errors
    /// The share of the tenant is taken.
    pub fn take_over(&self, mut permit: ResponsePermit) -> Result<TakeDeadline, Refusal> {
        permit.make_of(&self.tenant, self.class)?;
        Ok(self.until_taken(permit))
    }

    /// Cuts the connection if it does not take a large answer in time, see [`ResponsePermit::until_taken`].
    pub fn until_taken(&self, permit: ResponsePermit) -> TakeDeadline {
        permit.until_taken(self.abort.clone())
    }
}
