//! Settings of a store, and connections to its address.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts};
use loopwright_core::error::Failure;
use loopwright_core::log::MemoryError;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::tls;

/// Timeout of an attempt to connect to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The minimum lease: renewals need time.
const MIN_LEASE: Duration = Duration::from_millis(500);

/// The options of a store.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) url: String,
    pub(super) schema: String,
    pub(super) lease: Duration,
    pub(super) max_connections: usize,
    pub(super) root_certificates: Option<PathBuf>,
}

/// The connections to a database.
#[derive(Clone)]
pub(super) struct Connections {
    pub(super) config: Config,
    pub(super) tls: MakeRustlsConnect,
    /// The server and the database, for messages.
    pub(super) server: String,
    pub(super) pool: Pool,
    /// A pool of a single connection, for appends.
    pub(super) writer: Pool,
    /// Timeout for connecting.
    pub(super) limit: Duration,
}

impl Options {
    /// Checks the options, and prepares connections without connecting.
    pub(super) fn connections(&self) -> Result<Connections, MemoryError> {
        self.check()?;
        let (url, own) = own_parameters(&self.url);
        let mut config = Config::from_str(&url).map_err(|error| {
            let why = std::error::Error::source(&error).map(|why| why.to_string());
            invalid(format!(
                "the address of the PostgreSQL server is invalid ({error}: {}): it has the form \
                 postgres://USER:PASSWORD@HOST:5432/DATABASE",
                why.unwrap_or_default()
            ))
        })?;
        self.limit_waits(&mut config);
        if config.get_password().is_none()
            && let Ok(password) = std::env::var("PGPASSWORD")
        {
            config.password(password);
        }
        if config.get_application_name().is_none() {
            config.application_name("loopwright");
        }
        let roots = self.root_certificates.clone().or(own.roots);
        if own.verifies || (roots.is_some() && config.get_ssl_mode() != SslMode::Disable) {
            config.ssl_mode(SslMode::Require);
        }
        let tls = tls::connector(config.get_ssl_mode(), roots.as_deref())?;
        Connections::new(config, tls, self.max_connections)
    }

    fn check(&self) -> Result<(), MemoryError> {
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let schema = &self.schema;
        if schema.is_empty()
            || schema.len() > 63
            || !schema.chars().all(is_name)
            || schema.starts_with(|c: char| c.is_ascii_digit())
            || schema.starts_with("pg_")
        {
            return Err(invalid(format!(
                "the schema `{schema}` is no name for one: use lower-case letters, digits and `_`, \
                 at most 63 and not a digit first"
            )));
        }
        if self.lease < MIN_LEASE {
            let min = MIN_LEASE.as_millis();
            return Err(invalid(format!("a lease has at least {min} ms, not {:?}", self.lease)));
        }
        if self.max_connections == 0 {
            return Err(invalid("the store needs at least one connection".into()));
        }
        Ok(())
    }

    /// Limits the time that the store and the server wait for each other when one of them hangs or
    /// is cut off, and sets the schema.
    fn limit_waits(&self, config: &mut Config) {
        let schema = &self.schema;
        let options = config.get_options().map_or(String::new(), |given| format!("{given} "));
        let (lease, probes) = (self.lease, (self.lease / 4).max(Duration::from_secs(1)));
        // Others may wait for the locks of a transaction of this store.
        let (ms, seconds) = (lease.as_millis(), probes.as_secs());
        config.options(format!(
            "{options}-c search_path=\"{schema}\" -c idle_in_transaction_session_timeout={ms} \
             -c tcp_user_timeout={ms} -c tcp_keepalives_idle={seconds} \
             -c tcp_keepalives_interval={seconds} -c tcp_keepalives_count=3"
        ));
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            // Without data to send, only probes detect that the other side is gone.
            config.tcp_user_timeout(lease);
            config.keepalives_idle(probes);
            config.keepalives_interval(probes);
        }
    }
}

impl Connections {
    fn new(
        config: Config,
        tls: MakeRustlsConnect,
        max_connections: usize,
    ) -> Result<Self, MemoryError> {
        // All hosts are tried, and a name can have several addresses.
        let hosts = config.get_hosts().len().max(1) as u32;
        let per_host = config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
        let limit = per_host * (hosts + 2);
        let pool = |size| {
            let manager = Manager::from_config(
                config.clone(),
                tls.clone(),
                ManagerConfig { recycling_method: RecyclingMethod::Fast },
            );
            let timeout = Some(limit);
            Pool::builder(manager)
                .max_size(size)
                .runtime(Runtime::Tokio1)
                .timeouts(Timeouts { wait: timeout, create: timeout, recycle: timeout })
                .build()
                .map_err(MemoryError::failed)
        };
        let (server, pool, writer) = (describe(&config), pool(max_connections)?, pool(1)?);
        Ok(Connections { config, tls, server, pool, writer, limit })
    }
}

fn invalid(why: String) -> MemoryError {
    MemoryError::Failed(Failure::new(why))
}

/// Parameters of an address that the client library does not know.
#[derive(Default)]
struct OwnParameters {
    verifies: bool,
    roots: Option<PathBuf>,
}

/// Removes `sslrootcert`, and `sslmode=verify-ca` and `verify-full`, from an address.
fn own_parameters(url: &str) -> (String, OwnParameters) {
    let mut own = OwnParameters::default();
    let Some((start, query)) = url.split_once('?').filter(|_| url.contains("://")) else {
        return (url.into(), own);
    };
    let is_known = |pair: &&str| match pair.split_once('=') {
        Some(("sslrootcert", file)) => {
            own.roots = Some(file.into());
            false
        }
        Some(("sslmode", "verify-ca" | "verify-full")) => {
            own.verifies = true;
            false
        }
        _ => true,
    };
    let known: Vec<&str> = query.split('&').filter(is_known).collect();
    let query = if known.is_empty() { String::new() } else { format!("?{}", known.join("&")) };
    (format!("{start}{query}"), own)
}

/// Returns the server and the database, without the password, for messages.
fn describe(config: &Config) -> String {
    let hosts = config.get_hosts().iter().enumerate().map(|(n, host)| {
        let host = match host {
            Host::Tcp(host) => host.clone(),
            #[cfg(unix)]
            Host::Unix(path) => path.display().to_string(),
        };
        let port = config.get_ports().get(n).or(config.get_ports().first()).unwrap_or(&5432);
        format!("{host}:{port}")
    });
    let hosts: Vec<String> = hosts.collect();
    let database = config.get_dbname().or(config.get_user()).unwrap_or("?");
    format!("the PostgreSQL database `{database}` at {}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: &str) -> Options {
        Options {
            url: url.into(),
            schema: "loopwright".into(),
            lease: Duration::from_secs(10),
            max_connections: 4,
            root_certificates: None,
        }
    }

    #[test]
    fn an_address_is_described_without_its_password() {
        let made = options("postgres://ann:secret@db.example:6432/agents").connections().unwrap();
        assert_eq!(made.server, "the PostgreSQL database `agents` at db.example:6432");
        let made = options("host=/run/postgresql user=ann").connections().unwrap();
        assert_eq!(made.server, "the PostgreSQL database `ann` at /run/postgresql:5432");
    }

    #[test]
    fn certificates_are_verified_where_that_is_asked_for() {
        let mode = |url: &str| options(url).connections().unwrap().config.get_ssl_mode();
        assert_eq!(mode("postgres://h/d"), SslMode::Prefer);
        assert_eq!(mode("postgres://h/d?sslmode=disable"), SslMode::Disable);
        assert_eq!(mode("postgres://h/d?sslmode=require"), SslMode::Require);
        assert_eq!(mode("postgres://h/d?sslmode=verify-full&connect_timeout=3"), SslMode::Require);
        let error = options("postgres://h/d?sslrootcert=/none.pem").connections().err().unwrap();
        assert!(error.to_string().contains("root certificates in /none.pem"), "{error}");
    }

    #[test]
    fn what_is_invalid_is_refused_with_what_to_do() {
        let refused = |options: Options| options.connections().err().unwrap().to_string();
        let address = refused(options("mysql://h"));
        assert!(address.contains("postgres://USER:PASSWORD@HOST"), "{address}");
        for schema in ["", "Ann", "a b", "1a", "pg_a", "a\"; DROP"] {
            let error = refused(Options { schema: schema.into(), ..options("postgres://h") });
            assert!(error.contains("lower-case letters"), "{error}");
        }
        let lease = Duration::from_millis(1);
        let error = refused(Options { lease, ..options("postgres://h") });
        assert!(error.contains("at least 500 ms"), "{error}");
        let error = refused(Options { max_connections: 0, ..options("postgres://h") });
        assert!(error.contains("at least one connection"), "{error}");
    }
}
