//! `loopwright wake`: what stored sessions have to do, without a server.

use std::path::PathBuf;
use std::time::Duration;

use loopwright_core::SessionStore;
use loopwright_core::log::{Due, Schedule, ScheduleQuery, SessionQuery};
use loopwright_core::{Environment, SystemEnvironment};

use crate::args::{ClusterArgs, DEFAULT_GRACE, LogFormat, ServeArgs, WakeArgs};
use crate::commands::serve;
use crate::config::Config;
use crate::error::StartError;
use crate::exit_code::FAILED;
use crate::interrupt::Interrupt;
use crate::terms::at_time;
use crate::{log, output};

/// Does what is due, with `--watch` until the process is asked to stop, and returns the exit code.
pub(crate) async fn wake(args: WakeArgs, config: &Config) -> Result<u8, StartError> {
    log::start(&config.program.names, LogFormat::Text)?;
    let WakeArgs { watch, store, defaults } = args;
    let given = config.serve(ServeArgs { store, defaults, ..ServeArgs::default() })?;
    // Its budgets and rules are the server's. Nobody can reach it, so each session works in the
    // directory that it was started in.
    let root = vec![PathBuf::from("/")];
    let args = ServeArgs { root, cluster: ClusterArgs::default(), webhook: None, ..given };
    let server = serve::build(&args, config)?;
    let mut interrupt = Interrupt::listen()?;
    let mut terminate = Interrupt::terminate()?;
    let work = async {
        if watch {
            output::info("Waiting for timers and schedules (Ctrl-C stops this).");
            server.keep_running_due().await
        } else {
            server.run_due().await
        }
    };
    tokio::select! {
        () = work => {}
        () = interrupt.pressed() => {}
        () = terminate.pressed() => {}
    }
    server.drain(Duration::from_secs(DEFAULT_GRACE.into())).await;
    if watch {
        return Ok(0);
    }
    let store = config.open_store(&args.store)?;
    report(&*store).await
}

/// Says which work is left over and when the next is due, and returns the exit code.
async fn report(store: &dyn SessionStore) -> Result<u8, StartError> {
    let now = SystemEnvironment.now();
    let mut left_over = false;
    let mut next = None;
    if let Some(schedules) = store.schedules() {
        let all = schedules.page(&ScheduleQuery::new(usize::MAX)).await?.schedules;
        next = all.first().map(Schedule::due_at);
        for Schedule { session, id, .. } in all.iter().filter(|it| it.again_at.is_some()) {
            left_over = true;
            output::info(&format!(
                "The message of schedule {id} waits: session {session} cannot take it now."
            ));
        }
    }
    for session in store.sessions_page(&SessionQuery::new(usize::MAX).brief()).await?.sessions {
        let is_due = session.due_at(now).is_some_and(|due| due != Due::Interrupted);
        if !is_due || session.sub_agent_of.is_some() {
            next = next.into_iter().chain(session.wakes_at()).min();
        } else if store.in_use(&session.id).await? != Some(true) {
            left_over = true;
            output::info(&format!("Session {} has work left over.", session.id));
        }
    }
    output::info(&match next {
        Some(time) => format!("The next is due {}.", at_time(time, now)),
        None => "No agent sleeps, and no message is scheduled.".to_owned(),
    });
    Ok(if left_over { FAILED } else { 0 })
}
