//! What TLS, credentials and rights cost: the same executions unencrypted, over mTLS, and over mTLS with a policy and static tokens, or
//! JSON Web Tokens.

use std::fmt::Write as _;
use std::process::Command;

use escapement_tests::authority::{Authority, Issued, IssuedFiles, replace};
use escapement_tests::{
    Binaries, Fault, Orchestrator, OrchestratorSettings, PrivateDirectory, TokenIssuer, Worker,
    WorkerSettings,
};
use serde_json::{Value, json};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};

use super::pairs::{Pairs, p50};
use super::small::{CALLERS, WARM_UP};
use crate::load::{closed_loop, one_by_one};
use crate::plans::Template;
use crate::report::{Aim, Bar};
use crate::rounds::Extent;
use crate::stage::IN_FLIGHT_MAX;

/// Returns all bars of security. In each round all take turns.
pub(crate) async fn secure(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let plain = Place::start(Guard::Nothing).await?;
    let encrypted = Place::start(Guard::Certificates).await?;
    let judged = Place::start(Guard::CertificatesAndTokens).await?;
    let signed = Place::start(Guard::CertificatesAndSignedTokens).await?;
    let places = [&plain, &encrypted, &judged, &signed];
    let (mut rates, mut latencies) = ([const { Vec::new() }; 4], [const { Vec::new() }; 4]);
    for place in places {
        closed_loop(place.channels(CALLERS)?, &place.template, WARM_UP).await?;
    }
    for round in 0..extent.rounds {
        // Each comes first in turn: whoever is first finds the machine as the round before left it.
        for index in (0..4).map(|index| (index + round) % 4) {
            let place = places[index];
            let sample = closed_loop(place.channels(CALLERS)?, &place.template, extent.span).await?;
            rates[index].push(sample.rate);
            let sample = one_by_one(place.channel()?, &place.template, extent.calls).await?;
            latencies[index].push(p50(&sample.latencies));
        }
    }
    let pairs = |of: &[Vec<f64>; 4], value: usize, baseline: usize| Pairs {
        value: of[value].clone(),
        baseline: of[baseline].clone(),
    };
    let bar = |name, what: String, unit, pairs: Pairs, aim, baseline| {
        Bar::new(name, what, unit, pairs.value(), aim).beside(pairs.baseline(baseline))
    };
    let callers = format!("single-step executions over mTLS with tokens, {CALLERS} callers");
    let one = "single-step execution over mTLS with a token, one caller, p50";
    Ok(vec![
        bar(
            "secure_rate",
            callers.clone(),
            "executions/s",
            pairs(&rates, 2, 0),
            Aim::RatioAtLeast(0.8),
            "unencrypted, nobody judged",
        ),
        bar(
            "secure_latency",
            one.to_owned(),
            "ms",
            pairs(&latencies, 2, 0),
            Aim::RatioUnder(1.25),
            "unencrypted, nobody judged",
        ),
        bar(
            "access_rate",
            callers,
            "executions/s",
            pairs(&rates, 2, 1),
            Aim::RatioAtLeast(0.98),
            "mTLS, nobody judged",
        ),
        bar(
            "access_latency",
            one.to_owned(),
            "ms",
            pairs(&latencies, 2, 1),
            Aim::RatioUnder(1.02),
            "mTLS, nobody judged",
        ),
        bar(
            "signed_token_latency",
            "single-step execution over mTLS with a JSON Web Token, one caller, p50".to_owned(),
            "ms",
            pairs(&latencies, 3, 1),
            Aim::RatioUnder(1.02),
            "mTLS, nobody judged",
        ),
    ])
}

/// What stands between callers and the orchestrator.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Guard {
    Nothing,
    /// TLS, with certificates of callers and workers.
    Certificates,
    /// The same, a token for each call and session, and a policy.
    CertificatesAndTokens,
    /// The same, with callers whose tokens an issuer has signed.
    CertificatesAndSignedTokens,
}

/// An orchestrator with one worker. Killed on drop.
struct Place {
    orchestrator: Orchestrator,
    _worker: Worker,
    template: Template,
    tls: Option<ClientTlsConfig>,
    _directory: PrivateDirectory,
}

impl Place {
    async fn start(guard: Guard) -> Result<Self, Fault> {
        let directory = PrivateDirectory::new("bars")?;
        let mut settings = OrchestratorSettings::new(directory.path());
        let mut template = Template::single();
        let mut worker_flags = Vec::new();
        let mut tls = None;
        if guard != Guard::Nothing {
            let certificates = Certificates::write(&directory)?;
            settings = certificates
                .server_flags()
                .into_iter()
                .fold(settings, |settings, (name, value)| settings.flag(name, value));
            worker_flags = certificates.worker_flags();
            tls = Some(certificates.of_callers());
        }
        if matches!(
            guard,
            Guard::CertificatesAndTokens | Guard::CertificatesAndSignedTokens
        ) {
            let (caller, of_caller) = match guard {
                Guard::CertificatesAndSignedTokens => signed_token(&directory, "caller", "submitter").await?,
                _ => token("caller", "submitter")?,
            };
            let (worker, of_worker) = token("worker", "worker")?;
            let (policy, file) = (directory.join("policy.toml"), directory.join("worker.token"));
            std::fs::write(&policy, format!("version = 1\n{of_caller}{of_worker}"))?;
            replace(&file, &worker)?;
            settings = settings.flag("--access-policy", policy.display());
            worker_flags.push(("--token-file", file.display().to_string()));
            template = template.shown(format!("Bearer {caller}").parse()?);
        }
        if let Some(tls) = &tls {
            settings = settings.called_by_tls(tls.clone());
        }
        let orchestrator = settings.start().await?;
        let url = orchestrator.url();
        let worker = WorkerSettings::new(&url, "worker", directory.path(), directory.path());
        let worker = worker_flags
            .into_iter()
            .fold(worker, |worker, (name, value)| worker.flag(name, value))
            .flag("--max-in-flight", IN_FLIGHT_MAX)
            .connect()
            .await?;
        Ok(Self {
            orchestrator,
            _worker: worker,
            template,
            tls,
            _directory: directory,
        })
    }

    fn channel(&self) -> Result<Channel, Fault> {
        let endpoint = Channel::from_shared(self.orchestrator.url())?;
        let endpoint = match &self.tls {
            None => endpoint,
            Some(tls) => endpoint.tls_config(tls.clone())?,
        };
        Ok(endpoint.connect_lazy())
    }

    fn channels(&self, n_callers: usize) -> Result<Vec<Channel>, Fault> {
        (0..n_callers).map(|_| self.channel()).collect()
    }
}

/// Who trusts whom, and the files of it.
struct Certificates {
    servers: Authority,
    own: IssuedFiles,
    client_ca: String,
    server_ca: String,
    worker: IssuedFiles,
    caller: Issued,
}

impl Certificates {
    fn write(directory: &PrivateDirectory) -> Result<Self, Fault> {
        let (servers, clients) = (Authority::new("servers")?, Authority::new("clients")?);
        let file = |name: &str, text: &str| {
            let file = directory.join(name);
            replace(&file, text).map(|()| file.display().to_string())
        };
        Ok(Self {
            own: servers.issue(&["localhost"])?.write(directory.path(), "server")?,
            client_ca: file("client-ca.pem", &clients.pem())?,
            server_ca: file("server-ca.pem", &servers.pem())?,
            worker: clients.issue(&["worker"])?.write(directory.path(), "worker")?,
            caller: clients.issue(&["caller"])?,
            servers,
        })
    }

    fn server_flags(&self) -> [(&'static str, String); 3] {
        [
            ("--tls-cert", self.own.cert.display().to_string()),
            ("--tls-key", self.own.key.display().to_string()),
            ("--tls-client-ca", self.client_ca.clone()),
        ]
    }

    fn worker_flags(&self) -> Vec<(&'static str, String)> {
        vec![
            ("--tls-ca", self.server_ca.clone()),
            ("--tls-cert", self.worker.cert.display().to_string()),
            ("--tls-key", self.worker.key.display().to_string()),
            ("--tls-server-name", "localhost".to_owned()),
        ]
    }

    fn of_callers(&self) -> ClientTlsConfig {
        ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(self.servers.pem()))
            .domain_name("localhost")
            .identity(Identity::from_pem(&self.caller.cert, &self.caller.key))
    }
}

/// Returns a new token, and its entry in a policy.
fn token(name: &str, role: &str) -> Result<(String, String), Fault> {
    let mut command = Command::new(Binaries::build()?.orchestrator);
    let made = command.args(["token", "new", "--name", name]).output()?;
    let made: Value = serde_json::from_slice(&made.stdout)?;
    let text = |key: &str| {
        made[key]
            .as_str()
            .ok_or("`token new` prints a token and its hash")
    };
    let (token, sha256) = (text("token")?, text("sha256")?);
    let mut entry = String::new();
    writeln!(
        entry,
        "[[token]]\nname = \"{name}\"\nsha256 = \"{sha256}\"\nroles = [\"{role}\"]"
    )?;
    Ok((token.to_owned(), entry))
}

/// Returns a token that an issuer has signed, with the issuer's entry in a policy, whose keys stand in a file.
async fn signed_token(
    directory: &PrivateDirectory,
    name: &str,
    role: &str,
) -> Result<(String, String), Fault> {
    let issuer = TokenIssuer::start("bars").await?;
    let keys = directory.join("keys.json");
    replace(&keys, &issuer.key_set())?;
    let claims = json!({"iss": "bars", "aud": "escapement", "sub": name, "exp": 4_102_444_800_u64});
    let entry = format!(
        "[[jwt]]\nissuer = \"bars\"\naudience = \"escapement\"\njwks_file = \"{}\"\n[[jwt.grant]]\nwhen = {{}}\nroles = [\"{role}\"]\n",
        keys.display()
    );
    Ok((issuer.token(&claims), entry))
}
