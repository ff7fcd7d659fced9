//! Inputs for sessions, wherever they are open.

use std::time::Duration;

use loopwright_core::agent::InputError;
use loopwright_core::event::{Input, InputEvent};
use loopwright_core::log::{MemoryError, PostedInput, post_and_wait};
use loopwright_core::message::{InputId, new_input_id};
use tokio::time::Instant;

use super::{Lease, LiveSessions, Parts, is_end};
use crate::error::{ApiError, ErrorKind};
use crate::limits::quota::Client;

/// Timeout for the receipt of a posted input.
pub(super) const RECEIPT_TIMEOUT: Duration = Duration::from_secs(10);

/// The delay before the session of a posted input is opened here, if no process has it open.
const TAKE_OVER_INTERVAL: Duration = Duration::from_millis(200);

/// Timeout for the receipt of a compaction, which is written after the summary.
const COMPACTION_TIMEOUT: Duration = Duration::from_secs(600);

impl LiveSessions {
    /// Sends an input to a session, wherever it is open, and returns the input's id: the client's,
    /// or a new one. With a client, its run quota must allow a run if the session is open here.
    ///
    /// # Errors
    /// The outer error means that the input could not be sent. The inner error means that the
    /// session has refused it.
    pub(crate) async fn send(
        &self,
        id: &str,
        client: Option<Client>,
        input: Input,
    ) -> Result<Result<InputId, InputError>, ApiError> {
        let Input { id: input, mut event } = input;
        if let InputEvent::UserRequest(prompt) = &mut event {
            self.0.parts.telemetry.start_trace(prompt);
        }
        // With an id it can be resent if the owner changes meanwhile.
        let input = input.unwrap_or_else(new_input_id);
        if let Some(lease) = self.lease(id).await? {
            let _permit = match client {
                Some(client) => Some(self.run_permit(&lease, client).await?),
                None => None,
            };
            let sent = lease.handle.send(event.clone().with_id(input.clone())).await;
            if !sent.as_ref().is_err_and(is_end) {
                return Ok(sent);
            }
            self.close_now(id).await;
        }
        event.name_run(&*self.0.parts.store, id).await?;
        match PostedInput::new(input, event) {
            Ok(input) => self.post(id, input).await,
            Err(error) => Ok(Err(error)),
        }
    }

    /// Checks that the model of a session takes images, as far as that is known.
    pub(crate) async fn check_takes_images(&self, id: &str) -> Result<(), ApiError> {
        let Parts { agents, store, principal, .. } = &self.0.parts;
        let info = store.session(id).await?;
        let settings = agents.stored_settings(info.settings.as_deref());
        let principal = info.owner.as_ref().or(principal.as_ref());
        let agent = agents.for_session(settings, principal).await?;
        match agent.model().images {
            Some(false) => {
                let why = format!(
                    "The model of this session, `{}`, takes no images: choose another model, or \
                     send the text alone.",
                    agent.model().id
                );
                Err(ApiError::at("/images", why))
            }
            _ => Ok(()),
        }
    }

    /// Posts an input and waits for its receipt. If no process has the session open, it is opened
    /// here.
    async fn post(
        &self,
        id: &str,
        input: PostedInput,
    ) -> Result<Result<InputId, InputError>, ApiError> {
        let Parts { store, drain, cluster, .. } = &self.0.parts;
        match store.post(id, &input).await {
            Err(MemoryError::NoMailbox) => return Err(MemoryError::InUse(id.into()).into()),
            // The receipt of an earlier input with this id.
            Ok(Some(receipt)) => {
                return Ok(match receipt.into_result() {
                    Ok(()) => Ok(input.id),
                    Err(why) => {
                        Err(InputError::AlreadyRefused { id: input.id, why: Box::new(why) })
                    }
                });
            }
            posted => drop(posted?),
        }
        let is_cluster = cluster.is_configured();
        if is_cluster {
            cluster.wake(id).await?; // so that the placement opens the session
        }
        let start = Instant::now();
        let timeout = match &input.event {
            InputEvent::Compact(_) => COMPACTION_TIMEOUT,
            _ => RECEIPT_TIMEOUT,
        };
        let mut lease: Option<Lease> = None; // keeps the session open while it handles the input
        while start.elapsed() < timeout {
            // A future that is kept could hold a lock of the store while the session is opened.
            let receipt = post_and_wait(&**store, id, &input);
            if let Ok(receipt) = tokio::time::timeout(TAKE_OVER_INTERVAL, receipt).await {
                return Ok(receipt?.into_result().map(|()| input.id.clone()));
            }
            let is_open = lease.as_ref().is_some_and(|lease| !lease.handle.has_ended());
            if !is_open && !is_cluster && !drain.is_draining() {
                lease = self.lease(id).await?;
            }
        }
        Err(ApiError::new(
            ErrorKind::Unanswered,
            format!(
                "The input `{}` waits for the process that has the session open, which has not \
                 answered for {} seconds: send it again with the same id to get the answer.",
                input.id,
                timeout.as_secs()
            ),
        ))
    }
}
