//! A custom session store: sessions in Redis, for many machines. It passes the conformance suite.
//!
//! A log is a list. An append is one script and therefore atomic. It succeeds only at the list's
//! end and only for the owner. The owner is a key that is renewed while the owner lives and expires
//! a minute after its death. Then another owner can take the session over. An owner whose key has
//! expired, because the machine slept, continues if no other owner has appeared in between.
//!
//! Start `redis-server --appendonly yes --appendfsync always`, then run
//! `REDIS_URL=redis://… cargo run --example custom_memory`.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use loopwright::log::{LogEntry, MemoryError, SessionInfo, sub_agents};
use loopwright::memory::conformance;
use loopwright::{Environment, Memory, SessionStore, SystemEnvironment};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, AsyncTypedCommands, Client, Cmd, FromRedisValue, cmd};

const LEASE: Duration = Duration::from_secs(60);
const OPEN: &str = "return redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0";
const RENEW: &str =
    "return redis.call('GET', KEYS[2]) == ARGV[1] and redis.call('PEXPIRE', KEYS[2], ARGV[2]) or 0";
const APPEND: &str = "local n, owner = redis.call('LLEN', KEYS[1]), redis.call('GET', KEYS[2])
    if (owner and owner ~= ARGV[1]) or n ~= tonumber(ARGV[3]) then return {0, n} end
    redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
    for i = 5, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end
    if #ARGV > 4 then redis.call('SADD', 'sessions', ARGV[4]) end return {1, n}";
const CLOSE: &str =
    "return redis.call('GET', KEYS[2]) == ARGV[1] and redis.call('DEL', KEYS[2]) or 0";
const DELETE: &str = "if redis.call('EXISTS', KEYS[2]) == 1 then return 2 end
    redis.call('SREM', 'sessions', ARGV[1]) return redis.call('DEL', KEYS[1])";

/// A session store on a Redis server.
#[derive(Clone)]
pub struct Redis {
    /// Client, from which `drop` opens a blocking connection.
    pub client: Client,
    /// Shared connection of the async commands.
    pub connection: MultiplexedConnection,
}

/// An open session, which is released on drop.
struct OpenSession {
    redis: Redis,
    name: String,
    owner: String,
}

impl Redis {
    /// Connects to a server. The client's own limit of half a second is too short for a busy one.
    pub async fn connect(client: Client) -> Result<Self, MemoryError> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(LEASE / 6));
        let connection = client.get_multiplexed_async_connection_with_config(&config).await;
        Ok(Redis { client, connection: connection.map_err(MemoryError::failed)? })
    }
}

fn eval(script: &str, name: &str, args: &[String]) -> Cmd {
    cmd("EVAL")
        .arg(script)
        .arg(2)
        .arg(format!("log:{name}"))
        .arg(format!("owner:{name}"))
        .arg(args)
        .to_owned()
}

async fn run<T: FromRedisValue>(
    redis: &Redis,
    script: &str,
    name: &str,
    args: &[String],
) -> Result<T, MemoryError> {
    eval(script, name, args)
        .query_async(&mut redis.connection.clone())
        .await
        .map_err(MemoryError::failed)
}

#[async_trait::async_trait]
impl Memory for OpenSession {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        let lines: Result<Vec<_>, _> = entries.iter().map(serde_json::to_string).collect();
        let redis = self.redis.clone();
        let name = self.name.clone();
        let mut args =
            vec![self.owner.clone(), LEASE.as_millis().to_string(), at.to_string(), name.clone()];
        args.extend(lines.map_err(MemoryError::failed)?);
        // In a separate task, so that the append completes even if this future is dropped.
        let append =
            tokio::spawn(async move { run::<(u8, u64)>(&redis, APPEND, &name, &args).await });
        let (appended, end) = append.await.map_err(MemoryError::failed)??;
        if appended == 1 { Ok(()) } else { Err(MemoryError::Conflict { at, end }) }
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        match self.redis.read(&self.name, from).await {
            Err(MemoryError::NoSession(_)) => Ok(Vec::new()),
            other => other,
        }
    }
}

impl Drop for OpenSession {
    /// Waits briefly for the server, so that the session is free after the drop.
    fn drop(&mut self) {
        let close = eval(CLOSE, &self.name, std::slice::from_ref(&self.owner));
        let connection = self.redis.client.get_connection_with_timeout(LEASE / 30);
        // If this fails, the key expires.
        let _ = connection.and_then(|mut connection| close.exec(&mut connection));
    }
}

#[async_trait::async_trait]
impl SessionStore for Redis {
    async fn open(&self, name: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        let owner = format!("{:x}", SystemEnvironment.random());
        let args = [owner.clone(), LEASE.as_millis().to_string()];
        if run::<u8>(self, OPEN, name, &args).await? == 0 {
            return Err(MemoryError::InUse(name.into()));
        }
        let session = Arc::new(OpenSession { redis: self.clone(), name: name.into(), owner });
        let redis = self.clone();
        let name = name.to_owned();
        let open = Arc::downgrade(&session);
        tokio::spawn(async move {
            while open.strong_count() > 0 {
                let _ = run::<u8>(&redis, RENEW, &name, &args).await; // retried in the next round
                tokio::time::sleep(LEASE / 3).await;
            }
        });
        Ok(session)
    }

    async fn read(&self, name: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let mut connection = self.connection.clone();
        let lines =
            connection.lrange(format!("log:{name}"), 0, -1).await.map_err(MemoryError::failed)?;
        if lines.is_empty() {
            return Err(MemoryError::NoSession(name.into()));
        }
        let lines = lines.iter().skip(from as usize);
        lines.map(|line| serde_json::from_str(line).map_err(MemoryError::failed)).collect()
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        let mut sessions = Vec::new();
        for name in
            self.connection.clone().smembers("sessions").await.map_err(MemoryError::failed)?
        {
            match self.read(&name, 0).await {
                Err(MemoryError::NoSession(_)) => {} // deleted in the meantime
                entries => sessions.push(SessionInfo::of(name, &entries?)),
            }
        }
        sessions.retain(|info| info.sub_agent_of.is_none());
        sessions.sort_by_key(|info| Reverse(info.changed));
        Ok(sessions)
    }

    async fn in_use(&self, name: &str) -> Result<Option<bool>, MemoryError> {
        let mut connection = self.connection.clone();
        let key = format!("owner:{name}");
        connection.exists(key).await.map(Some).map_err(MemoryError::failed)
    }

    async fn delete(&self, name: &str) -> Result<(), MemoryError> {
        let sub_agents = sub_agents(self, name).await?;
        for name in &sub_agents {
            if self.in_use(name).await? == Some(true) {
                return Err(MemoryError::InUse(name.clone()));
            }
        }
        let deleted = run::<u8>(self, DELETE, name, &[name.to_owned()]).await?;
        if deleted == 1 {
            for name in sub_agents {
                run::<u8>(self, DELETE, &name, &[name.to_string()]).await?;
            }
        }
        match deleted {
            0 => Err(MemoryError::NoSession(name.into())),
            1 => Ok(()),
            _ => Err(MemoryError::InUse(name.into())),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").map_err(|_| "set REDIS_URL to the address of a server")?;
    let client = Client::open(url)?;
    let connect = || Redis::connect(client.clone());
    conformance::check(&connect().await?).await?;
    conformance::check_reopened(connect).await?;
    println!("The store passes the conformance suite.");
    Ok(())
}
