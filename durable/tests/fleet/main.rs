//! Workers on one PostgreSQL database that are killed, stopped and started while clients use their
//! sessions through any of them. A checker then reads the records of all of them.
//!
//! - `LOOPWRIGHT_KILLS`: the number of kills, 10 by default.
//! - `LOOPWRIGHT_SESSIONS`: the number of sessions in use, 18 by default.
//! - `LOOPWRIGHT_AT_REST`: the number of idle sessions, none by default.
//! - `LOOPWRIGHT_SEED`: repeats a seed.
//!
//! The tests with Restate need its server, from the npm package `@restatedev/restate-server`, as
//! `RESTATE_SERVER` or in the `PATH`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed check is a failed test"
)]

mod agent;
mod balancer;
mod check;
mod client;
mod figures;
mod fleet;
mod nemesis;
mod network;
mod poison;
mod random;
mod records;
mod worker;

use std::time::Duration;

use fleet::{Fleet, Placed, Special};
use nemesis::Fault;

/// Runs in a worker. The other tests start it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the other tests start it"]
async fn worker() {
    worker::run().await;
}

/// C340: with leases, kills of workers lose nothing and repeat nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_workers_lose_and_repeat_nothing() {
    Fleet::start(Placed::ByLeases).await.work(&[Fault::Kill]).await;
}

/// C340: a worker that is stopped for longer than its lease, and then continues, writes nothing to
/// sessions that others have taken over, and refuses nothing in their name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_are_stopped_for_longer_than_their_lease_do_no_harm() {
    Fleet::start(Placed::ByLeases).await.work(&[Fault::Stop]).await;
}

/// C340: a crash of the database server loses nothing acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_of_the_database_loses_nothing() {
    Fleet::start(Placed::ByLeases).await.work(&[Fault::KillDatabase, Fault::Kill]).await;
}

/// C340: a network that is cut in one direction for longer than the lease does no harm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn networks_that_are_cut_do_no_harm() {
    let special = Special { networks: true, ..Special::default() };
    Fleet::start_special(Placed::ByLeases, special).await.work(&[Fault::Cut]).await;
}

/// C340: wrong clocks of workers do no harm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_that_are_wrong_do_no_harm() {
    let special = Special { clocks: true, ..Special::default() };
    Fleet::start_special(Placed::ByLeases, special).await.work(&[Fault::Kill]).await;
}

/// C343: a fail-over to a standby for which commits wait loses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fail_over_to_a_synchronous_standby_loses_nothing() {
    let special = Special { standby: Some(true), ..Special::default() };
    let fleet = Fleet::start_special(Placed::ByLeases, special).await;
    let faults = [Fault::Kill, Fault::FailOver { lags: false }, Fault::Kill];
    let wrong = fleet.work_and_check(&faults, faults.len()).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// C343: a fail-over to a lagging standby loses acknowledged appends, and the checker finds it.
/// Inputs are among them only if it happens right after one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fail_over_to_a_standby_that_lags_is_found_by_the_checker() {
    let special = Special { standby: Some(false), ..Special::default() };
    let fleet = Fleet::start_special(Placed::ByLeases, special).await;
    let faults = [Fault::FailOver { lags: true }];
    let wrong = fleet.work_and_check(&faults, faults.len()).await;
    println!("{} violations, such as {:?}", wrong.len(), wrong.first());
    let is_loss =
        |why: &String| why.contains("is 0 times in the log") || why.contains("two appends at");
    assert!(wrong.iter().any(is_loss), "{wrong:?}");
}

/// C341: with a Restate server, kills of workers lose nothing and repeat nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_workers_with_restate_lose_and_repeat_nothing() {
    Fleet::start(Placed::ByRestate { nodes: 1 }).await.work(&[Fault::Kill]).await;
}

/// C341: a kill of the Restate server delays work, and loses none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_of_restate_loses_nothing() {
    Fleet::start(Placed::ByRestate { nodes: 1 }).await.work(&[Fault::KillRestate]).await;
}

/// C341: a kill of one of three Restate nodes loses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_of_one_of_three_restate_nodes_loses_nothing() {
    Fleet::start(Placed::ByRestate { nodes: 3 }).await.work(&[Fault::KillRestate]).await;
}

/// C338: workers that leave hand over their sessions, and workers with new code continue the runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgrades_hand_sessions_over_to_new_code() {
    Fleet::start(Placed::ByLeases).await.work(&[Fault::Upgrade]).await;
}

/// C341: the same with Restate, where each version of the code has its own address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgrades_with_restate_hand_sessions_over_to_new_code() {
    Fleet::start(Placed::ByRestate { nodes: 1 }).await.work(&[Fault::Upgrade]).await;
}

/// C403: some runs kill their process or exhaust its memory, and some inputs kill the process that
/// takes them. They are held after two owners each, and all other sessions are served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_kill_their_workers_are_held_and_others_are_served() {
    Fleet::start(Placed::ByLeases).await.work(&[Fault::Poison]).await;
}

/// C403: the same with Restate, while workers are also killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_kill_their_workers_are_held_with_restate_too() {
    Fleet::start(Placed::ByRestate { nodes: 1 }).await.work(&[Fault::Poison, Fault::Kill]).await;
}

/// Timeout for the work of a fleet.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Builds an HTTP client. Every client needs a crypto provider, even without TLS.
pub(crate) fn http_client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default(); // it may be installed
    reqwest::Client::new()
}
