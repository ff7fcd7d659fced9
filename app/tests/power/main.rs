//! `loopwright serve` with its store on a small disk, which is full.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use loopwright_test_support::TEST_TIMEOUT;
use loopwright_test_support::http::{Connection, Response};
use loopwright_test_support::process::{Binary, Process, project};

/// The binary that is tested.
pub(crate) const BIN: Binary = Binary::new(env!("CARGO_BIN_EXE_loopwright"));

/// The script of a process that mounts a small disk, which only it sees, and becomes the server.
const SCRIPT: &str = r#"mount -t tmpfs -o size=4m none "$DISK" && exec "$0" "$@""#;

/// A server with its store on a small disk.
struct Served {
    process: Process,
    address: String,
    /// The disk, as other processes reach it.
    disk: PathBuf,
}

impl Served {
    fn start(dir: &Path, store: &str, project: &tempfile::TempDir) -> Served {
        let disk = dir.to_str().unwrap();
        let store = format!("{disk}/{store}");
        let is_root = rustix::process::geteuid().is_root();
        let unshare = ["unshare", "--mount", "--map-root-user"];
        let unshare = &unshare[..if is_root { 2 } else { 3 }];
        let mut process = BIN.start_as(
            project,
            &[unshare, &["sh", "-c", SCRIPT]].concat(),
            &["serve", "--addr", "127.0.0.1:0", "--model", "offline", "--store", &store],
            &[("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), ("DISK", disk)],
        );
        let address = process.err.word_after("http://").trim_end_matches('/').to_owned();
        let disk = PathBuf::from(format!("/proc/{}/root{disk}", process.id()));
        Served { process, address, disk }
    }

    fn get(&self, path: &str) -> (u16, String) {
        let mut connection = Connection::open(&self.address);
        connection
            .send(format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address).as_bytes());
        let Response { status, body, .. } = connection.response().unwrap();
        (status, body)
    }

    fn create(&self) -> Response {
        Connection::post(&self.address, "/api/sessions", "", "{}").response().unwrap()
    }

    /// Waits until the server reports that it is ready, or not. An answer counts for a second.
    fn until_ready(&self, expected: u16, says: &str) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let (status, body) = self.get("/readyz");
            if status == expected {
                assert!(body.contains(says), "{body}");
                return;
            }
            assert!(Instant::now() < deadline, "it stays {status}: {body}");
        }
    }

    /// Writes to the disk until it is full.
    fn fill(&self) {
        let mut filler = File::create(self.disk.join("filler")).unwrap();
        for size in [64 * 1024, 1] {
            let error = loop {
                if let Err(error) = filler.write_all(&vec![0; size]) {
                    break error;
                }
            };
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
        }
    }

    fn free_space(&self) {
        std::fs::remove_file(self.disk.join("filler")).unwrap();
    }
}

/// C200: a server whose disk is full is alive and not ready, the log says why, and it is ready
/// again when there is room.
#[test]
fn a_server_on_a_full_disk_is_not_ready() {
    for store in ["sessions.db", "sessions/"] {
        let (project, folder) = (project(), tempfile::tempdir().unwrap());
        let mut served = Served::start(folder.path(), store, &project);
        assert_eq!(served.get("/readyz").0, 200, "{store}");
        assert_eq!(served.create().status, 201, "{store}");
        served.fill();
        served.until_ready(503, r#""status":"store""#);
        served.process.err.until("sessions cannot be stored");
        served.process.err.until("No space left on device");
        assert_eq!(served.get("/healthz").0, 200, "{store}");
        let refused = served.create();
        assert!(refused.status == 500, "{store}: {refused:?}");
        served.free_space();
        served.until_ready(200, r#""status":"ok""#);
        assert_eq!(served.create().status, 201, "{store}");
        let files = std::fs::read_dir(&served.disk).unwrap().map(|file| file.unwrap().file_name());
        let names: Vec<String> = files.map(|name| name.to_string_lossy().into_owned()).collect();
        assert!(names.iter().all(|name| name.starts_with("sessions")), "{names:?}");
    }
}
