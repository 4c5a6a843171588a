//! Authenticates and authorizes calls before their messages are read, and without waiting.
//! The rules are given, and may be replaced while connections live.

use crate::call_class::CallClass;
use crate::connection_abort::ConnectionAbort;
use crate::limits::{FAILED_AUTHENTICATIONS_MAX, PRINCIPALS_PER_CONNECTION_MAX};
use crate::peer::Peer;
use crate::share::Tenant;
use crate::wall_clock::until;
use escapement_access::{
    Access, CertificateIdentity, Credentials, Denial, JwtCache, Principal, PrincipalKind, row,
};
use escapement_keys::Keys;
use escapement_model::AttemptSeal;
use escapement_process::unix_ms;
use hyper::Request;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tracing::warn;

/// The rules that are in force, for all connections. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AccessRules {
    current: watch::Receiver<Arc<Access>>,
    /// The way to keys of issuers that are not there yet, if any can come.
    keys: Option<Keys>,
    tokens: Arc<Mutex<JudgedTokens>>,
    /// Seal of the tokens of attempts; `None`: no token is accepted as one.
    attempts: Option<AttemptSeal>,
    /// Failed authentications since the start.
    n_failed: Arc<AtomicU64>,
}

/// Results for JSON Web Tokens by the rules in force.
#[derive(Debug, Default)]
struct JudgedTokens {
    judged: JwtCache,
    rules: Option<Arc<Access>>,
}

impl AccessRules {
    /// Creates the rules from their current value and its replacements.
    pub fn new(current: watch::Receiver<Arc<Access>>) -> Self {
        Self {
            current,
            keys: None,
            tokens: Arc::default(),
            attempts: None,
            n_failed: Arc::default(),
        }
    }

    /// Returns the rules with the keys of their issuers.
    pub(crate) fn with_keys(keys: Keys) -> Self {
        Self {
            keys: Some(keys.clone()),
            ..Self::new(keys.current())
        }
    }

    /// Returns the same rules for a process whose attempts have tokens of this seal.
    #[must_use]
    pub fn of_attempts(self, attempts: AttemptSeal) -> Self {
        let attempts = Some(attempts);
        Self { attempts, ..self }
    }

    /// Returns rules that permit everything to every caller.
    pub fn none() -> Self {
        // A receiver whose sender is gone keeps what was sent last.
        Self::new(watch::channel(Arc::new(Access::without_policy())).1)
    }

    /// Returns the current rules and their replacements.
    pub fn changes(&self) -> watch::Receiver<Arc<Access>> {
        self.current.clone()
    }

    /// Returns the rules that are in force now.
    pub fn current(&self) -> Arc<Access> {
        Arc::clone(&self.current.borrow())
    }

    /// Returns the rules for one connection.
    pub(crate) fn of_connection(&self, peer: Peer) -> ConnectionAccess {
        ConnectionAccess {
            rules: self.clone(),
            peer,
            known: Mutex::default(),
            first_end: watch::Sender::new(None),
            n_failed: AtomicU32::new(0),
            ending: watch::Sender::new(None),
        }
    }

    /// Says who shows these credentials by these rules. A JSON Web Token is verified once, and then known for as long as it is valid.
    ///
    /// # Errors
    /// As [`Access::authenticate`]. A key that is not there is asked for, and if that brings nothing the credentials are invalid.
    fn authenticate(
        &self,
        rules: &Arc<Access>,
        shown: Credentials<'_>,
        now_ms: i64,
    ) -> Result<Arc<Principal>, Denial> {
        let digest = shown.authorization.and_then(|shown| rules.digest_of_jwt(shown));
        let Some(digest) = digest else {
            return rules.authenticate(shown, now_ms);
        };
        if let Some(judged) = self.tokens().of(rules).find(&digest, now_ms) {
            return judged;
        }
        // Without the lock: this takes a while.
        let judged = match rules.authenticate(shown, now_ms) {
            Err(Denial::KeysUnavailable { issuer }) if !self.may_have_keys(&issuer) => {
                Err(Denial::CredentialsInvalid)
            }
            judged => judged,
        };
        self.tokens().of(rules).keep(digest, &judged, now_ms);
        judged
    }

    fn may_have_keys(&self, issuer: &str) -> bool {
        self.keys.as_ref().is_some_and(|keys| keys.ask(issuer))
    }

    fn tokens(&self) -> MutexGuard<'_, JudgedTokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_failure(&self, peer: SocketAddr, denial: &Denial) {
        let n_failed = self.n_failed.fetch_add(1, Ordering::Relaxed) + 1;
        // At doublings: failing is free to cause, and must not fill the log.
        if n_failed.is_power_of_two() {
            warn!(n_failed, %peer, reason = denial.reason(), "credentials refused");
        }
    }
}

impl JudgedTokens {
    /// Returns the results for tokens by these rules; an empty cache if the rules are new.
    fn of(&mut self, rules: &Arc<Access>) -> &mut JwtCache {
        if !self.rules.as_ref().is_some_and(|last| Arc::ptr_eq(last, rules)) {
            self.judged = JwtCache::default();
            self.rules = Some(Arc::clone(rules));
        }
        &mut self.judged
    }
}

/// Address of a caller, in the extensions of each request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CallerAddress(pub SocketAddr);

/// Authenticated callers of one connection.
#[derive(Debug)]
pub(crate) struct ConnectionAccess {
    rules: AccessRules,
    peer: Peer,
    known: Mutex<Known>,
    /// The earliest end of a credential that was shown here, in milliseconds since 1970.
    first_end: watch::Sender<Option<i64>>,
    n_failed: AtomicU32,
    /// Calls that are to end, once the connection drains.
    ending: watch::Sender<Option<Ending>>,
}

/// Calls of a connection that are to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Calls of callers whose credentials are no longer valid.
    OfLost,
    /// All calls: the certificate of the connection is no longer trusted.
    OfAll,
}

/// Callers of the connection, by the rules in force.
#[derive(Debug, Default)]
struct Known {
    /// Callers by their `authorization`. At most [`PRINCIPALS_PER_CONNECTION_MAX`].
    callers: Vec<(Option<HeaderValue>, Arc<Principal>)>,
    rules: Option<Arc<Access>>,
    /// True if more callers called than the list holds: the effect of new rules on those is unknown.
    has_more: bool,
    /// True once other rules have taken all rights from a caller of this connection.
    has_lost: bool,
}

impl ConnectionAccess {
    /// Puts the caller among the extensions of the request, as `Arc<Principal>` and [`CallerAddress`], and with a policy the call's
    /// row of the matrix.
    ///
    /// # Errors
    /// Why it may not make this call. Who fails to say who it is too often loses the connection.
    pub(crate) fn judge<B>(
        &self,
        request: &mut Request<B>,
        abort: &ConnectionAbort,
    ) -> Result<Arc<Principal>, Denial> {
        let rules = self.rules.current();
        let principal = self.principal(&rules, request.headers()).inspect_err(|denial| {
            // Whose keys are on their way has not failed yet.
            if !denial.is_of_credentials() {
                return;
            }
            self.rules.count_failure(self.peer.address, denial);
            let n_before = self.n_failed.fetch_add(1, Ordering::Relaxed);
            if n_before + 1 >= FAILED_AUTHENTICATIONS_MAX {
                abort.abort();
            }
        })?;
        let path = request.uri().path();
        rules.permit(&principal, path)?;
        // What the call is about is judged by the same row once it is read.
        let row = rules.has_policy().then(|| row(path)).flatten();
        let extensions = request.extensions_mut();
        extensions.insert(Arc::clone(&principal));
        extensions.insert(CallerAddress(self.peer.address));
        if let Some(row) = row {
            extensions.insert(row);
        }
        Ok(principal)
    }

    /// Returns the tenant whose share the principal's open calls use: its namespace if it has only one, else itself.
    /// Without a policy all callers are one tenant. Calls that are open to all use the share of the connection.
    pub(crate) fn tenant_of(&self, principal: &Principal, class: CallClass) -> Tenant {
        if class.is_of_connections() || (class == CallClass::Health && principal.has_proven_nothing()) {
            return Some(self.peer.address.to_string().into());
        }
        if !self.has_policy() {
            return None;
        }
        // Whose attempt it is only the engine knows: attempts of one worker share what others leave.
        if principal.kind == PrincipalKind::Attempt {
            return Some(format!(":{}", self.peer.address).into());
        }
        Some(match principal.only_namespace() {
            Some(namespace) => namespace.as_str().into(),
            // No namespace has a colon.
            None => format!("{}:{}", principal.issuer, principal.name).into(),
        })
    }

    fn principal(&self, rules: &Arc<Access>, headers: &HeaderMap) -> Result<Arc<Principal>, Denial> {
        let now_ms = unix_ms();
        let mut shown = headers.get_all(AUTHORIZATION).iter();
        let authorization = shown.next();
        // Two values: another program may have read either. Without rules none is read.
        if shown.next().is_some() && rules.has_policy() {
            return Err(Denial::CredentialsInvalid);
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.judge_again(&self.rules, rules, self.peer.certificate.as_deref(), now_ms);
        let mut callers = known.callers.iter();
        let before = callers.find(|(header, _)| header.as_ref() == authorization);
        match before.map(|(_, principal)| principal) {
            Some(principal) if is_over(principal, now_ms) => return Err(Denial::CredentialsExpired),
            Some(principal) => return Ok(Arc::clone(principal)),
            None => {}
        }
        let attempts = self.rules.attempts.as_ref();
        let shown = Credentials {
            attempts,
            ..credentials(authorization, self.peer.certificate.as_deref())
        };
        let principal = self.rules.authenticate(rules, shown, now_ms)?;
        // Of an attempt nothing is known yet, and no policy changes what it may.
        if principal.kind != PrincipalKind::Attempt {
            known.add(authorization.cloned(), &principal);
        }
        drop(known);
        if let Some(end_ms) = principal.valid_until_ms {
            self.first_end.send_if_modified(|first| {
                let is_first = first.is_none_or(|first| end_ms < first);
                if is_first {
                    *first = Some(end_ms);
                }
                is_first
            });
        }
        Ok(principal)
    }

    /// Returns, with the reason for the log, once a credential of this connection has expired or was revoked by new rules.
    /// The calls that it began must then end, too.
    pub(crate) async fn lost(&self) -> &'static str {
        let mut rules = self.rules.current.clone();
        let mut first_end = self.first_end.subscribe();
        let mut are_rules_final = false;
        loop {
            let end_ms = *first_end.borrow_and_update();
            // Biased: an end that has come counts before all that would move it.
            tokio::select! {
                biased;
                () = over(end_ms) => return "its credentials have expired",
                changed = rules.changed(), if !are_rules_final => {
                    are_rules_final = changed.is_err();
                    if !are_rules_final && self.is_worthless_now() {
                        return "its credentials are not in the policy any more";
                    }
                }
                changed = first_end.changed() => {
                    changed.expect("the sender is a field of this value");
                }
            }
        }
    }

    /// Lets calls know that they are to end.
    pub(crate) fn end(&self, ending: Ending) {
        self.ending.send_replace(Some(ending));
    }

    /// Returns once calls are to end.
    pub(crate) async fn ended(&self) {
        let mut ending = self.ending.subscribe();
        let ended = ending.wait_for(Option::is_some).await;
        ended.expect("the sender is a field of this value");
    }

    /// Returns true if a call of this principal is to end. An attempt has no part in what others lose.
    pub(crate) fn is_void(&self, principal: &Principal) -> bool {
        match *self.ending.borrow() {
            None => return false,
            Some(Ending::OfAll) => return true,
            Some(Ending::OfLost) if principal.kind == PrincipalKind::Attempt => return false,
            Some(Ending::OfLost) => {}
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let can_still = |known: &Principal| known.is_same_as(principal) && !known.roles().is_empty();
        is_over(principal, unix_ms()) || !known.callers.iter().any(|(_, known)| can_still(known))
    }

    /// Returns the current rules and their replacements.
    pub(crate) fn rules(&self) -> watch::Receiver<Arc<Access>> {
        self.rules.changes()
    }

    /// Returns true if a policy decides.
    pub(crate) fn has_policy(&self) -> bool {
        self.rules.current.borrow().has_policy()
    }

    /// Returns the caller by the rules in force and all its credentials on this connection. `None` if it has lost all rights, or was
    /// never known.
    ///
    /// # Errors
    /// As [`Access::permit`], for the call of this path.
    pub(crate) fn judged(&self, principal: &Principal, path: &str) -> Option<Result<Arc<Principal>, Denial>> {
        let rules = self.rules.current();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.judge_again(&self.rules, &rules, self.peer.certificate.as_deref(), unix_ms());
        let same = known.callers.iter().map(|(_, known)| known);
        let mut same = same.filter(|known| known.is_same_as(principal) && !known.roles().is_empty());
        let mut judged = Arc::clone(same.next()?);
        for more in same {
            Arc::make_mut(&mut judged).grants.extend_from_slice(&more.grants);
        }
        Some(rules.permit(&judged, path).map(|()| judged))
    }

    /// Returns true if a caller of this connection has no rights by the rules in force.
    fn is_worthless_now(&self) -> bool {
        let rules = self.rules.current();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.judge_again(&self.rules, &rules, self.peer.certificate.as_deref(), unix_ms());
        known.has_lost
    }
}

impl Known {
    /// Replaces each caller by its principal under these rules, if they are new; callers without rights are left out.
    fn judge_again(
        &mut self,
        by: &AccessRules,
        rules: &Arc<Access>,
        certificate: Option<&CertificateIdentity>,
        now_ms: i64,
    ) {
        if self.rules.as_ref().is_some_and(|last| Arc::ptr_eq(last, rules)) {
            return;
        }
        let mut has_lost = self.has_more;
        self.callers.retain_mut(|(header, principal)| {
            let judged = by.authenticate(rules, credentials(header.as_ref(), certificate), now_ms);
            let could_do_something = !principal.roles().is_empty();
            let can_still = judged.as_ref().is_ok_and(|judged| !judged.roles().is_empty());
            has_lost |= could_do_something && !can_still;
            judged.is_ok_and(|judged| {
                *principal = judged;
                true
            })
        });
        self.has_lost |= has_lost;
        self.rules = Some(Arc::clone(rules));
    }

    fn add(&mut self, header: Option<HeaderValue>, principal: &Arc<Principal>) {
        if self.callers.len() < PRINCIPALS_PER_CONNECTION_MAX {
            self.callers.push((header, Arc::clone(principal)));
        } else {
            self.has_more = true;
        }
    }
}

fn credentials<'a>(
    authorization: Option<&'a HeaderValue>,
    certificate: Option<&'a CertificateIdentity>,
) -> Credentials<'a> {
    Credentials {
        authorization: authorization.map(HeaderValue::as_bytes),
        certificate,
        // Attempts are not among the remembered callers.
        attempts: None,
    }
}

/// Returns at the end of a credential; never without one.
async fn over(end_ms: Option<i64>) {
    match end_ms {
        Some(end_ms) => until(end_ms).await,
        None => std::future::pending().await,
    }
}

fn is_over(principal: &Principal, now_ms: i64) -> bool {
    principal.valid_until_ms.is_some_and(|end_ms| end_ms <= now_ms)
}

#[cfg(test)]
mod tests;
