//! A memory of one's own: sessions in Redis, for many machines. It passes the conformance suite.
//!
//! A log is a list. An append is one script, so it is whole or not at all, and counts only at the list's end and from the
//! owner: a key that expires, so that a dead owner, or one that has done nothing for a minute, can be replaced.
//! `redis-server --appendonly yes --appendfsync always`, then `REDIS_URL=redis://… cargo run --example custom_memory`.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright::{Ambient, Item, Memory, MemoryError, MemoryStore, SessionInfo, SystemAmbient};
use loopwright_memory::conformance;
use redis::{AsyncTypedCommands, Client, Cmd, FromRedisValue, aio::MultiplexedConnection, cmd};

const LEASE: u64 = 60_000; // milliseconds
const OPEN: &str = "return redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0";
const APPEND: &str = "local n = redis.call('LLEN', KEYS[1])
    if redis.call('GET', KEYS[2]) ~= ARGV[1] or n ~= tonumber(ARGV[3]) then return {0, n} end
    redis.call('PEXPIRE', KEYS[2], ARGV[2])
    for i = 5, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end
    if #ARGV > 4 then redis.call('SADD', 'sessions', ARGV[4]) end return {1, n}";
const CLOSE: &str = "return redis.call('GET', KEYS[2]) == ARGV[1] and redis.call('DEL', KEYS[2]) or 0";
const DELETE: &str = "if redis.call('EXISTS', KEYS[2]) == 1 then return 2 end
    redis.call('SREM', 'sessions', ARGV[1]) return redis.call('DEL', KEYS[1])";

#[derive(Clone)]
struct Redis(Client, MultiplexedConnection);

/// A session that is ours.
struct Owned(Redis, String, String);

fn failed(why: impl std::fmt::Display) -> MemoryError {
    MemoryError::Failed(why.to_string())
}

fn eval(script: &str, name: &str, args: &[String]) -> Cmd {
    let mut eval = cmd("EVAL");
    eval.arg(script).arg(2).arg(format!("log:{name}")).arg(format!("owner:{name}")).arg(args);
    eval
}

impl Redis {
    async fn script<T: FromRedisValue>(&self, script: &str, name: &str, args: &[String]) -> Result<T, MemoryError> {
        eval(script, name, args).query_async(&mut self.1.clone()).await.map_err(failed)
    }
}

#[async_trait]
impl Memory for Owned {
    async fn append(&self, at: u64, items: Arc<[Item]>) -> Result<(), MemoryError> {
        let Owned(redis, name, token) = self;
        let lines: Result<Vec<_>, _> = items.iter().map(serde_json::to_string).collect();
        let who = vec![token.clone(), LEASE.to_string(), at.to_string(), name.clone()];
        let (redis, name, args) = (redis.clone(), name.clone(), [who, lines.map_err(failed)?].concat());
        // On a task of its own: an append that nobody waits for any more takes place all the same.
        let done = tokio::spawn(async move { redis.script::<(u8, u64)>(APPEND, &name, &args).await });
        let (taken, end) = done.await.map_err(failed)??;
        if taken == 1 { Ok(()) } else { Err(MemoryError::Conflict { at, end }) }
    }
    async fn load(&self, from: u64) -> Result<Vec<Item>, MemoryError> {
        let found = self.0.read(&self.1, from).await;
        if matches!(found, Err(MemoryError::NoSession(_))) { Ok(Vec::new()) } else { found }
    }
}

impl Drop for Owned {
    /// Waits for the server for a moment, so that the session is free once this is gone.
    fn drop(&mut self) {
        let close = eval(CLOSE, &self.1, std::slice::from_ref(&self.2));
        let _ = self.0.0.get_connection().and_then(|mut server| close.exec(&mut server)); // else it expires
    }
}

#[async_trait]
impl MemoryStore for Redis {
    async fn open(&self, name: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        let token = format!("{:x}", SystemAmbient.random());
        match self.script::<u8>(OPEN, name, &[token.clone(), LEASE.to_string()]).await? {
            1 => Ok(Arc::new(Owned(self.clone(), name.into(), token))),
            _ => Err(MemoryError::InUse(name.into())),
        }
    }
    async fn read(&self, name: &str, from: u64) -> Result<Vec<Item>, MemoryError> {
        let lines = self.1.clone().lrange(format!("log:{name}"), 0, -1).await.map_err(failed)?;
        let items = lines.iter().skip(from as usize).map(|line| serde_json::from_str(line).map_err(failed));
        if lines.is_empty() { Err(MemoryError::NoSession(name.into())) } else { items.collect() }
    }
    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        let mut found = Vec::new();
        for name in self.1.clone().smembers("sessions").await.map_err(failed)? {
            match self.read(&name, 0).await {
                Ok(items) => found.push(SessionInfo::of(name, &items)),
                Err(MemoryError::NoSession(_)) => {} // deleted meanwhile
                Err(why) => return Err(why),
            }
        }
        found.sort_by_key(|info| std::cmp::Reverse(info.changed));
        Ok(found)
    }
    async fn delete(&self, name: &str) -> Result<(), MemoryError> {
        match self.script::<u8>(DELETE, name, &[name.to_owned()]).await? {
            0 => Err(MemoryError::NoSession(name.into())),
            1 => Ok(()),
            _ => Err(MemoryError::InUse(name.into())),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").map_err(|_| "set REDIS_URL to the address of a Redis server");
    let client = Client::open(url?)?;
    let redis = |server| Redis(client.clone(), server);
    let connect = async || client.get_multiplexed_async_connection().await.map(redis).map_err(failed);
    conformance::check(&connect().await?).await?;
    conformance::check_reopened(connect).await?;
    println!("The conformance suite is passed.");
    Ok(())
}
