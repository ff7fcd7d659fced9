//! Restate servers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// The nodes of a cluster. They are stopped on drop.
pub struct RestateServers {
    nodes: Vec<Node>,
    _folder: TempDir,
}

struct Node {
    command: Vec<(String, String)>,
    ingress: u16,
    admin: u16,
    child: Option<Child>,
}

impl Drop for RestateServers {
    fn drop(&mut self) {
        (0..self.nodes.len()).for_each(|node| self.kill(node));
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl RestateServers {
    /// Starts this number of nodes, and waits until they accept calls.
    pub async fn start(nodes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports: Vec<u16> = (0..nodes).map(|_| free_port()).collect();
        let addresses: Vec<String> =
            ports.iter().map(|port| format!("\"http://127.0.0.1:{port}\"")).collect();
        let node = |number: usize| {
            let (ingress, admin, port) = (free_port(), free_port(), ports[number]);
            let set = |name: &str, value: String| (format!("RESTATE_{name}"), value);
            let command = vec![
                set("CLUSTER_NAME", "test".into()),
                set("NODE_NAME", format!("n{number}")),
                set("BASE_DIR", folder.path().display().to_string()),
                set("LISTEN_MODE", "tcp".into()),
                set("BIND_ADDRESS", format!("127.0.0.1:{port}")),
                set("ADVERTISED_ADDRESS", format!("http://127.0.0.1:{port}")),
                set("INGRESS__BIND_ADDRESS", format!("127.0.0.1:{ingress}")),
                set("ADMIN__BIND_ADDRESS", format!("127.0.0.1:{admin}")),
                set("METADATA_CLIENT__ADDRESSES", format!("[{}]", addresses.join(","))),
                set("AUTO_PROVISION", (number == 0).to_string()),
                set("DEFAULT_REPLICATION", if nodes > 1 { "2" } else { "1" }.into()),
                set("LOG_FILTER", "warn".into()),
            ];
            Node { command, ingress, admin, child: None }
        };
        let nodes = (0..nodes).map(node).collect();
        let mut servers = RestateServers { nodes, _folder: folder };
        for node in 0..servers.nodes.len() {
            servers.run(node);
        }
        servers.until_ready().await;
        servers
    }

    /// Starts a node.
    pub fn run(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        let mut command = Command::new(program());
        command.envs(node.command.iter().cloned()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn();
        node.child =
            Some(child.expect("the npm package `@restatedev/restate-server` is installed"));
    }

    /// Kills a node.
    pub fn kill(&mut self, node: usize) {
        if let Some(mut child) = self.nodes[node].child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    async fn until_ready(&self) {
        for node in &self.nodes {
            while !is_ready(node.ingress) {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Returns the addresses of the ingress and the admin API of a node.
    pub fn addresses(&self, node: usize) -> (String, String) {
        let Node { ingress, admin, .. } = &self.nodes[node];
        (format!("http://127.0.0.1:{ingress}"), format!("http://127.0.0.1:{admin}"))
    }

    /// Returns the number of nodes.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }
}

fn is_ready(port: u16) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        let close = "Connection: close\r\n\r\n";
        write!(stream, "GET /restate/health HTTP/1.1\r\nHost: 127.0.0.1\r\n{close}")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

fn program() -> PathBuf {
    std::env::var_os("RESTATE_SERVER").map_or("restate-server".into(), PathBuf::from)
}
