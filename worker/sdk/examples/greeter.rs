//! A worker with one action. Start an orchestrator, then `cargo run -p escapement-sdk --example greeter`.

use escapement_sdk::{StepContext, StepError, Worker};
use serde_json::json;
use std::error::Error;

#[derive(serde::Deserialize)]
struct Greet {
    name: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    escapement_sdk::log_to_stderr()?;
    let address =
        std::env::var("ESCAPEMENT_ORCHESTRATOR").unwrap_or_else(|_| "http://127.0.0.1:7400".to_owned());
    Worker::builder(address)
        .handler("greet", |input: Greet, context: StepContext| async move {
            if input.name.is_empty() {
                return Err(StepError::new("NO_NAME", "there is nobody to greet"));
            }
            Ok(json!({"greeting": format!("hello {}", input.name), "attempt": context.attempt()}))
        })
        .run()
        .await?;
    Ok(())
}
