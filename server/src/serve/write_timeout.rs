//! A timeout for writes that a client holds up.

use std::pin::Pin;
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio_io_timeout::TimeoutWriter;

/// Maximum time that a client may receive nothing while the server has something to send.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Makes writes fail with [`TimedOut`](std::io::ErrorKind::TimedOut) when the client has received
/// nothing for this long.
pub(super) fn with_write_timeout<S: AsyncWrite>(
    stream: S,
    timeout: Duration,
) -> Pin<Box<TimeoutWriter<S>>> {
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(Some(timeout));
    Box::pin(stream)
}

#[cfg(test)]
mod tests {
    use std::io;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_receives_nothing_is_disconnected() {
        let (ours, mut theirs) = tokio::io::duplex(8);
        let mut ours = with_write_timeout(ours, Duration::from_secs(30));
        ours.write_all(b"12345678").await.unwrap();
        let start = Instant::now();
        let error = ours.write_all(b"9").await.unwrap_err();
        assert_eq!((error.kind(), start.elapsed().as_secs()), (io::ErrorKind::TimedOut, 30));
        theirs.read_exact(&mut [0; 8]).await.unwrap();
        ours.write_all(b"9").await.unwrap();
    }
}
