//! A TCP balancer, as in front of workers.

use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

/// Forwards connections to the ports in turn, if they accept any. It ends with the runtime.
pub(crate) async fn start(ports: Vec<u16>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let next = Arc::new(Mutex::new(0));
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (ports, next) = (ports.clone(), next.clone());
            tokio::spawn(async move {
                for _ in 0..ports.len() {
                    let port = {
                        let mut next = next.lock().unwrap();
                        *next = (*next + 1) % ports.len();
                        ports[*next]
                    };
                    if let Ok(mut worker) = TcpStream::connect(("127.0.0.1", port)).await {
                        let _ = copy_bidirectional(&mut client, &mut worker).await;
                        return;
                    }
                }
            });
        }
    });
    port
}
