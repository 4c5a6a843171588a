//! Publishes one message to a stream of JetStream, and waits until the stream has it. Makes no stream, and subscribes to nothing but
//! the answer.
//!
//! The protocol of NATS clients is a few lines of text, of which publishing needs seven; the client library would bring some fifty
//! crates for them.

mod credentials;
mod protocol;
mod subject;

pub(crate) use self::credentials::Credentials;
pub(crate) use self::subject::Subject;

use self::protocol::{Connection, Reply};
use super::message::{Message, Posted};
use escapement_credentials::ClientTls;
use escapement_delivery::Answer;
use serde::Deserialize;

/// A stream of a server, by the subject that it listens to.
#[derive(Clone, Debug)]
pub(crate) struct NatsTarget {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// `None`: unencrypted.
    pub(crate) tls: Option<ClientTls>,
    pub(crate) subject: Subject,
    /// `None`: the server asks for none.
    pub(crate) credentials: Option<Credentials>,
}

/// The way to one server, which keeps its connection.
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    connection: Option<Connection>,
}

impl Publisher {
    /// Publishes a message under its id, by which the stream drops repetitions. An error says why there is no answer.
    pub(crate) async fn publish(&mut self, target: &NatsTarget, message: &Message) -> Result<Posted, String> {
        let subject = target.subject.of(message);
        // A connection that was left open may be closed by now, which shows only when it is used.
        if let Some(mut kept) = self.connection.take()
            && let Ok(reply) = kept.publish(&subject, &message.id, &message.body).await
        {
            self.connection = Some(kept);
            return Ok(judged(&reply));
        }
        let mut connection = Connection::open(target).await?;
        let reply = connection.publish(&subject, &message.id, &message.body).await?;
        self.connection = Some(connection);
        Ok(judged(&reply))
    }
}

/// What a stream answers. <https://docs.nats.io/reference/reference-protocols/nats_api_reference>
#[derive(Deserialize)]
struct Acknowledgement {
    stream: Option<String>,
    seq: Option<u64>,
    error: Option<Problem>,
}

#[derive(Deserialize)]
struct Problem {
    code: u16,
    #[serde(default)]
    description: String,
}

fn judged(reply: &Reply) -> Posted {
    let failed = Answer::Failed { retry_after_ms: None };
    let body = match reply {
        Reply::Body(body) => body,
        Reply::NobodyListens => return (failed, "no stream has the subject".to_owned()),
        Reply::Denied(why) => return (Answer::Refused, why.clone()),
        Reply::TooLarge { bytes_max } => {
            let said = format!("the server takes messages of {bytes_max} bytes at most");
            return (Answer::Refused, said);
        }
    };
    match serde_json::from_slice(body) {
        Ok(Acknowledgement {
            error: Some(problem), ..
        }) => {
            // The others are about the stream: it is full, has no leader, or no store.
            let answer = if problem.code == BAD_REQUEST {
                Answer::Refused
            } else {
                failed
            };
            let described: String = problem.description.chars().take(DESCRIPTION_CHARS_MAX).collect();
            (answer, format!("error {}: {described}", problem.code))
        }
        Ok(Acknowledgement {
            stream: Some(_),
            seq: Some(_),
            ..
        }) => (Answer::Taken, "acknowledged".to_owned()),
        _ => (failed, "what answered is no stream".to_owned()),
    }
}

/// The message itself is wrong, say too large for the stream.
const BAD_REQUEST: u16 = 400;
/// Characters of what a server says that go into the log.
const DESCRIPTION_CHARS_MAX: usize = 200;

#[cfg(test)]
mod tests;
