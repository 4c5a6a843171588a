//! A TCP proxy on loopback that breaks connections in every way that networks do. Decides nothing by what it carries.
//!
//! ```no_run
//! use escapement_tests::Fault;
//! use escapement_tests::fault_proxy::{Direction, FaultProxy, Flow};
//!
//! # async fn story(orchestrator: std::net::SocketAddr) -> Result<(), Fault> {
//! let proxy = FaultProxy::start(orchestrator).await?;
//! // A worker connects to `proxy.url()`. Then what it says is lost, and it does not notice.
//! proxy.set(Direction::ToTarget, Flow::BlackHole);
//! # Ok(())
//! # }
//! ```

mod pump;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::Fault;
use crate::session_wire::SessionRecording;
use pump::{Ends, Pump};

/// What happens to bytes on their way in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// They arrive.
    Pass,
    /// They are read and forgotten, the end of the stream too: the sender does not notice.
    /// What follows after a return to `Pass` has a gap before it.
    BlackHole,
    /// They are read and kept, up to 64 MiB, and arrive after a return to `Pass`: a partition that heals.
    Hold,
    /// They are not read: the sender feels back-pressure when its buffers are full.
    Stall,
    /// They arrive so much later, in their order.
    Delay(Duration),
    /// So many arrive in a second, at least one.
    Rate(u32),
    /// They arrive in segments of at most so many, at least one.
    Pieces(usize),
}

/// A way through the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From those who connect.
    ToTarget,
    /// To those who connect.
    ToClient,
}

/// An end of a connection through the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Those who connect.
    Client,
    /// What the proxy stands in front of.
    Target,
}

/// A connection through the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// 1 for the first that was accepted.
    pub id: u64,
    /// Where it came from.
    pub client: SocketAddr,
    /// Bytes that were forwarded.
    pub to_target: u64,
    /// Bytes that were forwarded.
    pub to_client: u64,
}

/// What went through the proxy since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Connections that were accepted.
    pub connections: u64,
    /// Of these, the ones for which the target could not be reached; they are reset.
    pub unreachable: u64,
    /// Bytes that were forwarded.
    pub to_target: u64,
    /// Bytes that were forwarded.
    pub to_client: u64,
}

/// A running proxy. On drop it closes every connection and its port.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Keeps the port where connections are refused.
    _port: TcpSocket,
    accepting: Mutex<Option<AbortHandle>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    n_to_target: AtomicU64,
    n_to_client: AtomicU64,
}

#[derive(Debug)]
struct State {
    target: SocketAddr,
    to_target: Flow,
    to_client: Flow,
    n_accepted: u64,
    n_unreachable: u64,
    live: BTreeMap<u64, Live>,
    recording: Option<SessionRecording>,
}

#[derive(Debug)]
struct Live {
    client: SocketAddr,
    to_target: Way,
    to_client: Way,
    task: AbortHandle,
}

/// A direction of one connection.
#[derive(Debug)]
struct Way {
    orders: watch::Sender<Orders>,
    n_bytes: Arc<AtomicU64>,
}

/// What a pump is to do.
#[derive(Clone, Copy, Debug)]
struct Orders {
    flow: Flow,
    /// The sender's socket is to be closed.
    stop_reading: bool,
    /// The receiver is to see the end of the stream.
    stop_writing: bool,
    /// Both sockets are to be reset.
    reset: bool,
}

impl FaultProxy {
    /// Listens on a free port of loopback, in front of `target`, which need not be there yet.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn start(target: SocketAddr) -> Result<Self, Fault> {
        let port = bound(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let address = port.local_addr()?;
        let state = State {
            target,
            to_target: Flow::Pass,
            to_client: Flow::Pass,
            n_accepted: 0,
            n_unreachable: 0,
            live: BTreeMap::new(),
            recording: None,
        };
        let shared = Shared {
            state: Mutex::new(state),
            n_to_target: AtomicU64::new(0),
            n_to_client: AtomicU64::new(0),
        };
        let proxy = Self {
            address,
            shared: Arc::new(shared),
            _port: port,
            accepting: Mutex::new(None),
        };
        proxy.accept_connections()?;
        Ok(proxy)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL, as workers take it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Connections from now on go elsewhere.
    pub fn set_target(&self, target: SocketAddr) {
        self.shared.state().target = target;
    }

    /// Changes one direction of all connections, those to come too.
    pub fn set(&self, direction: Direction, flow: Flow) {
        let mut state = self.shared.state();
        match direction {
            Direction::ToTarget => state.to_target = flow,
            Direction::ToClient => state.to_client = flow,
        }
        for live in state.live.values() {
            live.order(direction, |orders| orders.flow = flow);
        }
    }

    /// Changes both directions of all connections, those to come too.
    pub fn set_both(&self, flow: Flow) {
        self.set(Direction::ToTarget, flow);
        self.set(Direction::ToClient, flow);
    }

    /// Changes one direction of one connection. Nothing happens when it is over.
    pub fn set_one(&self, connection: u64, direction: Direction, flow: Flow) {
        self.order(connection, direction, |orders| orders.flow = flow);
    }

    /// Connections that live now, the oldest first.
    pub fn connections(&self) -> Vec<Connection> {
        let state = self.shared.state();
        let live = state.live.iter().map(|(id, live)| Connection {
            id: *id,
            client: live.client,
            to_target: live.to_target.n_bytes.load(Ordering::Relaxed),
            to_client: live.to_client.n_bytes.load(Ordering::Relaxed),
        });
        live.collect()
    }

    /// What went through since the start.
    pub fn traffic(&self) -> Traffic {
        let state = self.shared.state();
        Traffic {
            connections: state.n_accepted,
            unreachable: state.n_unreachable,
            to_target: self.shared.n_to_target.load(Ordering::Relaxed),
            to_client: self.shared.n_to_client.load(Ordering::Relaxed),
        }
    }

    /// Both sides of a connection get a RST, and what is on its way is lost.
    pub fn reset(&self, connection: u64) {
        for direction in [Direction::ToTarget, Direction::ToClient] {
            self.order(connection, direction, |orders| orders.reset = true);
        }
    }

    /// The same for every connection that lives now.
    pub fn reset_all(&self) {
        for connection in self.connections() {
            self.reset(connection.id);
        }
    }

    /// A side sees the end of the stream and may go on sending; what the other side sends is forgotten.
    pub fn half_close(&self, connection: u64, side: Side) {
        self.order(connection, side.direction_to(), |orders| {
            orders.stop_writing = true
        });
    }

    /// The socket of one side is closed; the other side is not told and may send for ever: half-open TCP.
    pub fn close_one_side(&self, connection: u64, side: Side) {
        self.order(connection, side.direction_to(), |orders| {
            orders.stop_writing = true
        });
        self.order(connection, side.direction_from(), |orders| {
            orders.stop_reading = true
        });
    }

    /// Notes what worker sessions say on connections from now on.
    pub fn record_sessions(&self) -> SessionRecording {
        self.shared.state().recording.get_or_insert_default().clone()
    }

    /// New connections are refused; those that live go on.
    pub fn refuse_connections(&self) {
        if let Some(accepting) = self.lock_accepting().take() {
            accepting.abort();
        }
    }

    /// New connections are accepted again, as they are from the start.
    ///
    /// # Errors
    /// The operating system's.
    pub fn accept_connections(&self) -> Result<(), Fault> {
        let mut accepting = self.lock_accepting();
        if accepting.is_none() {
            let listener = bound(self.address)?.listen(BACKLOG)?;
            *accepting = Some(tokio::spawn(accept(listener, Arc::clone(&self.shared))).abort_handle());
        }
        Ok(())
    }

    fn order(&self, connection: u64, direction: Direction, change: impl FnOnce(&mut Orders)) {
        if let Some(live) = self.shared.state().live.get(&connection) {
            live.order(direction, change);
        }
    }

    fn lock_accepting(&self) -> MutexGuard<'_, Option<AbortHandle>> {
        self.accepting.lock().expect("nobody panics while holding it")
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.refuse_connections();
        for live in self.shared.state().live.values() {
            live.task.abort();
        }
    }
}

impl Side {
    fn direction_to(self) -> Direction {
        match self {
            Self::Client => Direction::ToClient,
            Self::Target => Direction::ToTarget,
        }
    }

    fn direction_from(self) -> Direction {
        match self {
            Self::Client => Direction::ToTarget,
            Self::Target => Direction::ToClient,
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding it")
    }
}

impl Live {
    fn order(&self, direction: Direction, change: impl FnOnce(&mut Orders)) {
        let way = match direction {
            Direction::ToTarget => &self.to_target,
            Direction::ToClient => &self.to_client,
        };
        way.orders.send_modify(change);
    }
}

/// Several sockets of the proxy may have its port; only one listens.
fn bound(address: SocketAddr) -> Result<TcpSocket, Fault> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseport(true)?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        // A connection that broke while it waited is not the proxy's fault.
        let Ok((client, from)) = listener.accept().await else {
            continue;
        };
        let mut state = shared.state();
        state.n_accepted += 1;
        let id = state.n_accepted;
        let (to_target, orders_to_target) = way(state.to_target);
        let (to_client, orders_to_client) = way(state.to_client);
        let counts = [Arc::clone(&to_target.n_bytes), Arc::clone(&to_client.n_bytes)];
        let orders = [orders_to_target, orders_to_client];
        let task = tokio::spawn(carry(id, client, Arc::clone(&shared), orders, counts)).abort_handle();
        let live = Live {
            client: from,
            to_target,
            to_client,
            task,
        };
        state.live.insert(id, live);
    }
}

fn way(flow: Flow) -> (Way, watch::Receiver<Orders>) {
    let orders = Orders {
        flow,
        stop_reading: false,
        stop_writing: false,
        reset: false,
    };
    let (orders, receiver) = watch::channel(orders);
    let n_bytes = Arc::new(AtomicU64::new(0));
    (Way { orders, n_bytes }, receiver)
}

/// Carries one connection until both directions are over.
async fn carry(
    id: u64,
    client: TcpStream,
    shared: Arc<Shared>,
    orders: [watch::Receiver<Orders>; 2],
    counts: [Arc<AtomicU64>; 2],
) {
    let (target, taps) = {
        let state = shared.state();
        let taps = state.recording.as_ref().map(SessionRecording::connection);
        (state.target, taps)
    };
    let connected = tokio::time::timeout(CONNECT_LIMIT, TcpStream::connect(target)).await;
    if let Ok(Ok(target)) = connected {
        let _ = client.set_nodelay(true);
        let _ = target.set_nodelay(true);
        let (from_client, to_client) = client.into_split();
        let (from_target, to_target) = target.into_split();
        let [orders_to_target, orders_to_client] = orders;
        let [n_to_target, n_to_client] = counts;
        let [tap_to_target, tap_to_client] = taps.map_or([None, None], |taps| taps.map(Some));
        let mut pumps = JoinSet::new();
        let all = Arc::clone(&shared);
        let ends = Ends::new(from_client, to_target);
        pumps.spawn(Pump::new(ends, orders_to_target, tap_to_target).run(move |n| {
            n_to_target.fetch_add(n, Ordering::Relaxed);
            all.n_to_target.fetch_add(n, Ordering::Relaxed);
        }));
        let all = Arc::clone(&shared);
        let ends = Ends::new(from_target, to_client);
        pumps.spawn(Pump::new(ends, orders_to_client, tap_to_client).run(move |n| {
            n_to_client.fetch_add(n, Ordering::Relaxed);
            all.n_to_client.fetch_add(n, Ordering::Relaxed);
        }));
        while let Some(ended) = pumps.join_next().await {
            // What one side broke, the other one gets to feel.
            if matches!(ended, Ok(pump::Ending::Broken))
                && let Some(live) = shared.state().live.get(&id)
            {
                live.order(Direction::ToTarget, |orders| orders.reset = true);
                live.order(Direction::ToClient, |orders| orders.reset = true);
            }
        }
    } else {
        shared.state().n_unreachable += 1;
        let _ = client.set_zero_linger();
    }
    shared.state().live.remove(&id);
}

const BACKLOG: u32 = 1024;
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
