//! Webhooks: what is believed and what is not.

use crate::plan_words::{call, document, text};
use crate::triggers::{created, firings};
use crate::world::{LIMIT, World};
use escapement_tests::wait_for;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// HMAC-SHA256 and base64, written a second time.
fn signed(key: &[u8; 32], id: &str, at: u64, body: &[u8]) -> String {
    let pad = |with: u8| -> Vec<u8> {
        let mut block = vec![with; 64];
        for (byte, key) in block.iter_mut().zip(key) {
            *byte ^= key;
        }
        block
    };
    let message = [format!("{id}.{at}.").as_bytes(), body].concat();
    let inner = Sha256::digest([pad(0x36), message].concat());
    let mac = Sha256::digest([pad(0x5c), inner.to_vec()].concat());
    format!("v1,{}", base64(&mac))
}

/// Returns the digits of base64.
fn digits() -> Vec<char> {
    let letters = ('A'..='Z').chain('a'..='z');
    letters.chain('0'..='9').chain(['+', '/']).collect()
}

fn base64(bytes: &[u8]) -> String {
    let digits = digits();
    let bits: Vec<u8> = bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1))
        .collect();
    let digit = |bits: &[u8]| {
        let value = (0..6).fold(0, |value, at| value * 2 + bits.get(at).copied().unwrap_or(0));
        digits[usize::from(value)]
    };
    let mut text: String = bits.chunks(6).map(digit).collect();
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

/// The sender of a webhook.
pub(crate) struct Hook {
    address: String,
    pub(crate) trigger_id: String,
    key: [u8; 32],
}

impl Hook {
    /// Knows neither the address nor the trigger.
    pub(crate) fn new(key: [u8; 32]) -> Self {
        Self {
            address: String::new(),
            trigger_id: String::new(),
            key,
        }
    }

    /// Creates the sender that has this secret.
    pub(crate) fn of(secret: &str) -> Self {
        let digits = digits();
        let text = secret.strip_prefix("whsec_").unwrap();
        let values = text
            .chars()
            .filter_map(|digit| digits.iter().position(|known| *known == digit));
        let bits: Vec<usize> = values
            .flat_map(|value| (0..6).rev().map(move |at| value >> at & 1))
            .collect();
        let byte = |bits: &[usize]| bits.iter().fold(0, |byte, bit| byte << 1 | *bit as u8);
        let bytes: Vec<u8> = bits.chunks_exact(8).map(byte).collect();
        Self::new(bytes.try_into().unwrap())
    }

    pub(crate) fn secret(&self) -> String {
        format!("whsec_{}", base64(&self.key))
    }

    /// Takes the address that the process listens on now.
    pub(crate) async fn finds(&mut self, world: &World) {
        self.address = webhook_address(world).await;
    }

    async fn post(&self, id: &str, age_s: i64, body: &[u8], signature: Option<String>) -> (u16, Value) {
        self.try_post(id, age_s, body, signature).await.unwrap()
    }

    /// The status and the body of the answer, if there is one.
    pub(crate) async fn try_post(
        &self,
        id: &str,
        age_s: i64,
        body: &[u8],
        signature: Option<String>,
    ) -> Option<(u16, Value)> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let at = now.checked_add_signed(-age_s).unwrap();
        let signature = signature.unwrap_or_else(|| signed(&self.key, id, at, body));
        let head = format!(
            "POST /webhooks/{} HTTP/1.1\r\nhost: h\r\ncontent-length: {}\r\nwebhook-id: {id}\r\nwebhook-timestamp: {at}\r\n\
             webhook-signature: {signature}\r\n\r\n",
            self.trigger_id,
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).await.ok()?;
        stream.write_all(head.as_bytes()).await.ok()?;
        // A server that refuses a large body may not read all of it.
        let _cut = stream.write_all(body).await;
        let mut answer = Vec::new();
        let _cut = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).ok()?;
        let (head, said) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, serde_json::from_str(said).unwrap_or(Value::Null)))
    }
}

async fn webhook_address(world: &World) -> String {
    let log = world.directory.join("orchestrator.stderr");
    let told = async || {
        let log = std::fs::read_to_string(&log).ok()?;
        let line = log.lines().rfind(|line| line.contains("webhooks served"))?;
        let (_, address) = line.split_once("address=")?;
        Some(address.split_whitespace().next()?.to_owned())
    };
    wait_for("the listener", LIMIT, told).await.unwrap()
}

// TRIG-5.1
#[tokio::test]
async fn s67_a_delivery_is_believed_by_its_signature_its_time_and_its_id() {
    let mut world = World::start_with(|settings| settings.flag("--webhook-listen", "127.0.0.1:0")).await;
    let key = [7; 32];
    let mut hook = Hook::new(key);
    let steps = json!([call(
        "a",
        "script.pure",
        json!({ "n": "${input:/trigger/event/data/n}", "id": "${input:/trigger/event/data/id}" })
    )]);
    let run = json!({ "document": document(steps), "autonomy_level": 4 });
    let trigger =
        json!({ "name": "hook", "run": run, "webhook": { "secret": hook.secret() }, "overlap": "allow" });
    let made = world
        .call("TriggerService/CreateTrigger", json!({ "trigger": trigger }))
        .await;
    assert!(
        !made.to_string().contains("whsec_"),
        "a secret is never shown again"
    );
    let trigger_id = text(&made["trigger"]["trigger_id"]);
    hook.finds(&world).await;
    hook.trigger_id.clone_from(&trigger_id);
    let (status, said) = hook
        .post("d-1", 0, br#"{"n": 5, "id": 2512292042121000001}"#, None)
        .await;
    assert_eq!(status, 202, "{said}");
    let run_id = text(&said["run_id"]);
    world.ended(&run_id).await;
    let told = json!({ "n": 5, "id": "2512292042121000001" });
    assert_eq!(world.calls_of(&run_id)[0]["payload"], told, "no digit is lost");
    assert_eq!(world.all_runs(json!({ "trigger_id": trigger_id })).await.len(), 1);

    for (why, status, answer) in [
        (
            "another body",
            401,
            hook.post("d-2", 0, b"{}", Some(signed(&key, "d-2", 1, b"{ }")))
                .await,
        ),
        (
            "no signature",
            401,
            hook.post("d-2", 0, b"{}", Some(String::new())).await,
        ),
        ("too old", 401, hook.post("d-2", 301, b"{}", None).await),
        ("too new", 401, hook.post("d-2", -302, b"{}", None).await),
        ("no id", 401, hook.post("", 0, b"{}", None).await),
        ("a replay", 409, hook.post("d-1", 0, br#"{"n": 5}"#, None).await),
        (
            "too large",
            413,
            hook.post("d-2", 0, &vec![b' '; (1 << 20) + 1], None).await,
        ),
        ("no object", 422, hook.post("d-2", 0, b"[1]", None).await),
        (
            "a key twice",
            422,
            hook.post("d-2", 0, br#"{"n": 5, "n": 6}"#, None).await,
        ),
    ] {
        assert_eq!(answer.0, status, "{why}: {}", answer.1);
    }
    let request = json!({ "trigger_id": trigger_id });
    let stats = world
        .call("TriggerService/GetTriggerStats", request.clone())
        .await;
    assert_eq!(
        (&stats["firings"], &stats["webhook_refusals"]),
        (&json!(1), &json!(5))
    );

    // The id stays used over a restart.
    world.crash().await;
    hook.finds(&world).await;
    assert_eq!(hook.post("d-1", 0, br#"{"n": 5}"#, None).await.0, 409);
    assert_eq!(hook.post("d-3", 0, br#"{"n": 6}"#, None).await.0, 202);
    let disable = json!({ "trigger_id": trigger_id, "enabled": false });
    world.call("TriggerService/EnableTrigger", disable).await;
    assert_eq!(hook.post("d-4", 0, b"{}", None).await.0, 403);
    hook.trigger_id = "6f1d3c52-8a4e-4b7f-9c21-5e0d7a9b4c10".to_owned();
    assert_eq!(hook.post("d-4", 0, b"{}", None).await.0, 401, "no such trigger");
    assert_eq!(firings(&world, &trigger_id).await.len(), 2);

    // Another source.
    let mut elsewhere = world.call("TriggerService/GetTrigger", request).await["trigger"].take();
    for output in [
        "last_fired_at",
        "next_fire_at",
        "fire_count",
        "created_at",
        "updated_at",
        "etag",
        "last_run_id",
    ] {
        elsewhere.as_object_mut().unwrap().remove(output);
    }
    elsewhere["webhook"]["allowed_sources"] = json!(["192.0.2.0/24"]);
    elsewhere["enabled"] = json!(true);
    world
        .call("TriggerService/UpdateTrigger", json!({ "trigger": elsewhere }))
        .await;
    hook.trigger_id = trigger_id;
    assert_eq!(hook.post("d-5", 0, b"{}", None).await.0, 401);
    world.close().await;
}

// RUN-6.8
#[tokio::test]
async fn s55_starters_in_a_chain_of_triggers_do_not_approve_its_last_run() {
    let mut world = World::start_with(|settings| settings.flag("--webhook-listen", "127.0.0.1:0")).await;
    let mut hook = Hook::new([7; 32]);
    let nothing = json!({ "document": document(json!([])), "autonomy_level": 4 });
    let first =
        json!({ "name": "hook", "user_id": "ada", "run": nothing, "webhook": { "secret": hook.secret() } });
    hook.trigger_id = created(&world, first).await;
    let plan = document(json!([call("a", "script.pure", json!({}))]));
    let guarded = json!({ "document": plan, "autonomy_level": 1, "policy": { "four_eyes": true } });
    let after = json!({ "type": "run_completed", "equals": { "trigger_id": hook.trigger_id } });
    let second = json!({ "name": "next", "user_id": "bob", "run": guarded, "event": after });
    let second = created(&world, second).await;
    hook.finds(&world).await;
    let (status, said) = hook.post("d-1", 0, b"{}", None).await;
    assert_eq!(status, 202, "{said}");
    let fired = async || firings(&world, &second).await.pop();
    let firing = wait_for("the second firing", LIMIT, fired).await.unwrap();
    assert_eq!(firing["fired_by"], "ada", "{firing}");
    // The chain is known after a restart, too.
    world.crash().await;
    let run_id = text(&firing["run_id"]);
    let request = world.open_request(&run_id).await;
    let approve = || json!({ "approval": { "approve": {} } });
    for who in ["ada", "bob"] {
        let refusal = world.respond_as(&request, who, approve()).await.unwrap_err();
        assert_eq!(refusal.reason, "SELF_APPROVAL", "{who}");
    }
    world.respond_as(&request, "eve", approve()).await.unwrap();
    assert_eq!(world.ended(&run_id).await["state"], "completed");
    world.close().await;
}

// TRIG-5.1
#[tokio::test]
async fn what_is_for_no_webhook_is_refused_for_its_head_and_slow_connections_keep_nobody_out() {
    let world = World::start_with(|settings| settings.flag("--webhook-listen", "127.0.0.1:0")).await;
    let mut hook = Hook::new([7; 32]);
    let run = json!({ "document": document(json!([])), "autonomy_level": 4 });
    let trigger = json!({ "name": "hook", "run": run, "webhook": { "secret": hook.secret() } });
    let made = world
        .call("TriggerService/CreateTrigger", json!({ "trigger": trigger }))
        .await;
    hook.finds(&world).await;
    hook.trigger_id = text(&made["trigger"]["trigger_id"]);

    // No byte of a body is ever sent.
    let head = "POST /webhooks/0b6a1b52-2f0e-4c0e-9d3e-5a1d6d1f7a01 HTTP/1.1\r\nhost: h\r\ncontent-length: 100000\r\n\
                webhook-id: a\r\nwebhook-timestamp: 1\r\nwebhook-signature: v1,a\r\n\r\n";
    let mut stranger = TcpStream::connect(&hook.address).await.unwrap();
    stranger.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    let read = tokio::time::timeout(LIMIT, stranger.read_exact(&mut answer)).await;
    read.expect("refused for its head alone").unwrap();
    assert_eq!(&answer, b"HTTP/1.1 401");

    let mut slow = Vec::new();
    for _ in 0..SLOW {
        let mut stream = TcpStream::connect(&hook.address).await.unwrap();
        stream.write_all(b"POST /webhooks/").await.unwrap();
        slow.push(stream);
    }
    let (status, said) = hook.post("d-1", 0, b"{}", None).await;
    assert_eq!(status, 202, "{said}");
}

/// Connections that say half a head; more than the listener takes.
const SLOW: usize = 300;
