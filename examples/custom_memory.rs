//! A memory of one's own: sessions in Redis, for many machines. It passes the conformance suite.
//!
//! A log is a list. An append is one script, so it is whole or not at all, and counts only at the
//! list's end and from the owner: a key that is renewed while the owner lives and expires a minute
//! after its death, so that it can be replaced. An owner whose key has expired, as the machine
//! slept, goes on if nobody has come in between. `redis-server --appendonly yes --appendfsync
//! always`, then `REDIS_URL=redis://… cargo run --example custom_memory`.

use std::{sync::Arc, time::Duration};

use loopwright::agent::{Environment, SystemEnvironment};
use loopwright::log::{LogEntry, MemoryError, SessionInfo};
use loopwright::{Memory, SessionStore};
use redis::{AsyncTypedCommands, Client, Cmd, FromRedisValue, aio::MultiplexedConnection, cmd};

const LEASE: Duration = Duration::from_secs(60);
const OPEN: &str = "return redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0";
const RENEW: &str =
    "return redis.call('GET', KEYS[2]) == ARGV[1] and redis.call('PEXPIRE', KEYS[2], ARGV[2]) or 0";
const APPEND: &str = "local n, owner = redis.call('LLEN', KEYS[1]), redis.call('GET', KEYS[2])
    if (owner and owner ~= ARGV[1]) or n ~= tonumber(ARGV[3]) then return {0, n} end
    redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2]) for i = 5, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end
    if #ARGV > 4 then redis.call('SADD', 'sessions', ARGV[4]) end return {1, n}";
const CLOSE: &str =
    "return redis.call('GET', KEYS[2]) == ARGV[1] and redis.call('DEL', KEYS[2]) or 0";
const DELETE: &str = "if redis.call('EXISTS', KEYS[2]) == 1 then return 2 end
    redis.call('SREM', 'sessions', ARGV[1]) return redis.call('DEL', KEYS[1])";

/// A store: the server, and a connection to it.
#[derive(Clone)]
pub struct Redis(pub Client, pub MultiplexedConnection);

/// A session that is ours.
struct Owned(Redis, String, String);

fn failed(why: impl std::fmt::Display) -> MemoryError {
    MemoryError::Failed(why.to_string())
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
    on: &Redis,
    script: &str,
    name: &str,
    args: &[String],
) -> Result<T, MemoryError> {
    eval(script, name, args).query_async(&mut on.1.clone()).await.map_err(failed)
}

#[async_trait::async_trait]
impl Memory for Owned {
    async fn append(&self, at: u64, items: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        let Owned(redis, name, token) = self;
        let lines: Result<Vec<_>, _> = items.iter().map(serde_json::to_string).collect();
        let who = vec![token.clone(), LEASE.as_millis().to_string(), at.to_string(), name.clone()];
        let (redis, name, args) =
            (redis.clone(), name.clone(), [who, lines.map_err(failed)?].concat());
        // On a task of its own: an append that nobody waits for any more takes place all the same.
        let done =
            tokio::spawn(async move { run::<(u8, u64)>(&redis, APPEND, &name, &args).await });
        let (taken, end) = done.await.map_err(failed)??;
        if taken == 1 { Ok(()) } else { Err(MemoryError::Conflict { at, end }) }
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let found = self.0.read(&self.1, from).await;
        if matches!(found, Err(MemoryError::NoSession(_))) { Ok(Vec::new()) } else { found }
    }
}

impl Drop for Owned {
    /// Waits for the server for a moment, so that the session is free once this is gone.
    fn drop(&mut self) {
        let close = eval(CLOSE, &self.1, std::slice::from_ref(&self.2));
        let server = self.0.0.get_connection_with_timeout(LEASE / 30);
        let _ = server.and_then(|mut server| close.exec(&mut server)); // else it expires
    }
}

#[async_trait::async_trait]
impl SessionStore for Redis {
    async fn open(&self, name: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        let who = [format!("{:x}", SystemEnvironment.random()), LEASE.as_millis().to_string()];
        if run::<u8>(self, OPEN, name, &who).await? == 0 {
            return Err(MemoryError::InUse(name.into()));
        }
        let owned = Arc::new(Owned(self.clone(), name.into(), who[0].clone()));
        let (redis, name, lives) = (self.clone(), name.to_owned(), Arc::downgrade(&owned));
        tokio::spawn(async move {
            while lives.strong_count() > 0 {
                let _ = run::<u8>(&redis, RENEW, &name, &who).await; // else the next time
                tokio::time::sleep(LEASE / 3).await;
            }
        });
        Ok(owned)
    }

    async fn read(&self, name: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let lines = self.1.clone().lrange(format!("log:{name}"), 0, -1).await.map_err(failed)?;
        let items =
            lines.iter().skip(from as usize).map(|line| serde_json::from_str(line).map_err(failed));
        if lines.is_empty() { Err(MemoryError::NoSession(name.into())) } else { items.collect() }
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        let mut found = Vec::new();
        for name in self.1.clone().smembers("sessions").await.map_err(failed)? {
            match self.read(&name, 0).await {
                Err(MemoryError::NoSession(_)) => {} // deleted meanwhile
                items => found.push(SessionInfo::of(name, &items?)),
            }
        }
        found.sort_by_key(|info| std::cmp::Reverse(info.changed));
        Ok(found)
    }

    async fn delete(&self, name: &str) -> Result<(), MemoryError> {
        match run::<u8>(self, DELETE, name, &[name.to_owned()]).await? {
            0 => Err(MemoryError::NoSession(name.into())),
            1 => Ok(()),
            _ => Err(MemoryError::InUse(name.into())),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::open(
        std::env::var("REDIS_URL").map_err(|_| "set REDIS_URL to the address of a server")?,
    )?;
    let redis = |server| Redis(client.clone(), server);
    let connect =
        async || client.get_multiplexed_async_connection().await.map(redis).map_err(failed);
    loopwright::memory::conformance::check(&connect().await?).await?;
    loopwright::memory::conformance::check_reopened(connect).await?;
    println!("The conformance suite is passed.");
    Ok(())
}
