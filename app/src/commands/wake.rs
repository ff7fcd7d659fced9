//! `loopwright wake`: what stored sessions have to do, without a server.

use std::path::PathBuf;
use std::time::Duration;

use loopwright_core::SessionStore;
use loopwright_core::log::{MemoryError, SessionInfo, SessionQuery};
use loopwright_core::{Environment, SystemEnvironment};

use crate::args::{DEFAULT_GRACE, LogFormat, ServeArgs, WakeArgs};
use crate::commands::serve;
use crate::config::Config;
use crate::error::StartError;
use crate::interrupt::Interrupt;
use crate::terms::at_time;
use crate::{log, output};

/// Does what is due, with `--watch` until the process is asked to stop, and returns the exit code.
pub(crate) async fn wake(args: WakeArgs, config: &Config) -> Result<u8, StartError> {
    log::start(&config.program.names, LogFormat::Text)?;
    let WakeArgs { watch, store, defaults } = args;
    let given = config.serve(ServeArgs { store, defaults, ..ServeArgs::default() })?;
    // Nobody can send it anything, so the limits of clients do not apply: each session works in
    // the directory that it was started in.
    let args = ServeArgs {
        root: vec![PathBuf::from("/")],
        store: given.store,
        defaults: given.defaults,
        run_budget: given.run_budget,
        ..ServeArgs::default()
    };
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
    if !watch {
        let store = config.open_store(&args.store)?;
        output::info(&match next(&*store).await? {
            Some(time) => format!("The next is due {}.", at_time(time, SystemEnvironment.now())),
            None => "No agent sleeps, and no message is scheduled.".to_owned(),
        });
    }
    Ok(0)
}

/// Returns the next time of a timer, a deadline or a schedule.
async fn next(store: &dyn SessionStore) -> Result<Option<u64>, MemoryError> {
    let sessions = store.sessions_page(&SessionQuery::new(usize::MAX).brief()).await?.sessions;
    let scheduled = match store.schedules() {
        Some(schedules) => schedules.next_after(0).await?,
        None => None,
    };
    Ok(sessions.iter().filter_map(SessionInfo::wakes_at).chain(scheduled).min())
}
