//! A PostgreSQL server for tests, which is started, killed and restarted. Its programs are in the
//! folder `POSTGRES_BIN`, or in Debian's folder.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The user `nobody`, since PostgreSQL refuses to run as root.
const NOBODY: u32 = 65534;

/// A server on its own port. It is stopped on drop.
pub struct Server {
    bin: PathBuf,
    folder: TempDir,
    port: u16,
    options: String,
    /// The address for `listen_addresses`.
    listens_at: &'static str,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop("immediate");
    }
}

impl Server {
    /// Creates a cluster in RAM, if possible, and starts its server. Nothing is flushed, since a
    /// crash of the machine is not tested.
    pub fn start() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self::start_in(folder.unwrap(), "-F")
    }

    /// Creates a cluster in a folder and starts its server with these options.
    pub fn start_in(folder: TempDir, options: &str) -> Self {
        let server = Self::create(folder, options);
        server.run();
        server
    }

    /// Creates a cluster and starts its server with the certificate that `certify` creates in a
    /// folder, as `server.crt` and `server.key`.
    pub fn start_encrypted(certify: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = "-F -c ssl=on -c ssl_cert_file=../server.crt -c ssl_key_file=../server.key";
        let server = Self::create(folder, options);
        certify(server.folder.path());
        if is_root() {
            let key = server.path("server.key");
            chown(key, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        server.run();
        server
    }

    /// Creates a cluster whose server can be reached by other machines of this network.
    pub fn start_for(network: &str) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let mut server = Self::create(folder.unwrap(), "-F");
        server.listens_at = "*";
        let mut rules = fs::OpenOptions::new().append(true).open(server.path("data/pg_hba.conf"));
        writeln!(rules.as_mut().unwrap(), "host all all {network} trust").unwrap();
        server.run();
        server
    }

    /// Starts a standby, which receives everything that this server writes. With `waits`, commits
    /// wait for it.
    pub fn start_standby(&self, waits: bool) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        if is_root() {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let port = free_port();
        let options = self.options.clone();
        let standby = Server { bin: bin(), folder, port, options, listens_at: self.listens_at };
        let mut copy = standby.program("pg_basebackup");
        copy.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "test", "-D", "data"]);
        copy.args(["--write-recovery-conf", "--checkpoint", "fast"]);
        assert!(copy.status().expect("pg_basebackup is installed").success());
        standby.run();
        if waits {
            self.psql("ALTER SYSTEM SET synchronous_standby_names = '*'");
            self.psql("SELECT pg_reload_conf()");
        }
        standby
    }

    /// Cuts a standby off from its primary.
    pub fn disconnect(&self) {
        self.psql("ALTER SYSTEM SET primary_conninfo = ''");
        self.psql("SELECT pg_reload_conf()");
    }

    /// Makes a standby the primary.
    pub fn promote(&self) {
        self.psql("SELECT pg_promote(true)");
    }

    fn psql(&self, sql: &str) {
        let mut psql = self.program("psql");
        let status = psql.args(["-d", &self.url(), "-c", sql]).status();
        assert!(status.expect("psql is installed").success(), "{sql}");
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the file of this name in the folder of the cluster.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn create(folder: TempDir, options: &str) -> Self {
        if is_root() {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let port = free_port();
        let options = options.to_owned();
        let server = Server { bin: bin(), folder, port, options, listens_at: "127.0.0.1" };
        let mut initdb = server.program("initdb");
        initdb.args(["--auth", "trust", "--username", "test", "--encoding", "UTF8"]);
        initdb.args(["--no-sync", "--locale", "C.UTF-8", "--pgdata", "data"]);
        assert!(initdb.status().expect("initdb is installed").success());
        server
    }

    /// Starts the server, and waits until it accepts connections.
    pub fn run(&self) {
        let mut start = self.program("pg_ctl");
        let options = format!(
            "{} -c listen_addresses='{}' -c max_connections=300 -p {} -k {}",
            self.options,
            self.listens_at,
            self.port,
            self.folder.path().display()
        );
        start.args(["start", "--wait", "-D", "data", "-l", "log", "-o", &options]);
        assert!(start.status().expect("pg_ctl is installed").success(), "{}", self.log());
    }

    /// Stops the server: `immediate` like a crash, `fast` in order.
    pub fn stop(&self, mode: &str) {
        let mut stop = self.program("pg_ctl");
        let _ = stop.args(["stop", "-m", mode, "-D", "data"]).status(); // it may have ended
    }

    /// Returns the address of the database.
    pub fn url(&self) -> String {
        format!("postgres://test@127.0.0.1:{}/postgres", self.port)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Returns the command for a program of PostgreSQL, which refuses to run as root.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.bin.join(name));
        command.current_dir(self.folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Returns the folder of `initdb` and `pg_ctl`.
fn bin() -> PathBuf {
    if let Some(bin) = std::env::var_os("POSTGRES_BIN") {
        return bin.into();
    }
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut bins: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    bins.retain(|bin: &PathBuf| Path::exists(&bin.join("initdb")));
    bins.sort();
    bins.pop().expect("PostgreSQL is installed, or POSTGRES_BIN names the folder of `initdb`")
}
