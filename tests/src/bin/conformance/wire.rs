//! A TCP stream whose writes may be cut into single bytes. Knows nothing of what is written.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A connection of the worker.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    bytes_per_write: usize,
}

impl Wire {
    /// Writes whatever fits.
    pub(crate) fn whole(stream: TcpStream) -> Self {
        let bytes_per_write = usize::MAX;
        Self {
            stream,
            bytes_per_write,
        }
    }

    /// Writes one byte at a time, each in a packet of its own where the system lets it.
    pub(crate) fn split(stream: TcpStream) -> Self {
        let bytes_per_write = 1;
        Self {
            stream,
            bytes_per_write,
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let n = bytes.len().min(self.bytes_per_write);
        Pin::new(&mut self.stream).poll_write(cx, &bytes[..n])
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
