//! `loopwright cluster`: the servers on a database.

use std::io;

use loopwright_core::log::{MemoryError, Worker};

use crate::args::ClusterCommand;
use crate::config::Config;
use crate::error::StartError;
use crate::exit_code::EMPTY;
use crate::output;

/// Runs the command, and returns the exit code.
pub(crate) async fn cluster(command: &ClusterCommand, config: &Config) -> Result<u8, StartError> {
    let ClusterCommand::Status { json, store } = command;
    let store = config.open_store(store)?;
    let Some(workers) = store.workers() else {
        let why = "the store belongs to one machine: --store names the database of a cluster, \
                   such as postgres://USER@HOST/DATABASE";
        return Err(MemoryError::Failed(why.into()).into());
    };
    // Leaves out processes with nothing open, such as this command itself.
    let serves = |worker: &Worker| worker.address.is_some() || worker.sessions > 0;
    let found: Vec<Worker> = workers.workers().await?.into_iter().filter(serves).collect();
    let print = |worker: &Worker| match json {
        true => output::json_line(worker),
        false => print_worker(worker),
    };
    output::after_write(found.iter().try_for_each(print))?;
    Ok(if found.is_empty() { EMPTY } else { 0 })
}

fn print_worker(worker: &Worker) -> io::Result<()> {
    let Worker { number, sessions, takeovers, .. } = worker;
    let address = worker.address.as_deref().unwrap_or("-");
    let state = if worker.is_alive { "alive" } else { "dead" };
    output::text(&format!("{number}  {address}  {state}  {sessions} open  {takeovers} taken over"))
}
