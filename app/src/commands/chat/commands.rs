//! The slash commands of the line chat: its own and the app's.

use loopwright_core::event::InputEvent;
use loopwright_memory::long_term::DISTIL_COMMAND;

use super::state::{Chat, Compacted, Done, State};
use crate::facts::{self, MemoryCommand};
use crate::output;
use crate::session::{FollowError, Live};
use crate::slash::{FrontEnd, SlashCommand, SlashReply};

impl Chat {
    /// Returns the help on commands and keys, including the app's commands.
    pub(super) fn help(&self) -> String {
        let row = |usage: String, help: &str| format!("{usage:<15} {help}\n");
        let built_in = FrontEnd::Chat.commands().map(|command| row(command.usage(), command.help));
        let own = self.program.slash_commands.iter();
        let own = own.map(|own| row(format!("/{}", own.name), &own.help));
        let commands: String = built_in.chain(own).collect();
        format!(
            "A line is a request; while the agent works, a line steers it.\n{commands}\
             Ctrl-C          abort the run; a second one, or one while idle, quits"
        )
    }

    /// Returns the app's slash command with this name.
    pub(super) fn own(&self, word: &str) -> Option<&SlashCommand> {
        self.program.slash_command(word.strip_prefix('/')?)
    }

    /// Starts a slash command of the app. Only one runs at a time.
    pub(super) fn start_slash(&mut self, word: &str, arguments: &str) {
        if self.slash.is_some() {
            output::info("A command is still running: wait until it is done.");
            return;
        }
        self.slash = self.own(word).map(|own| own.start(arguments, self.context.clone()));
    }

    /// Shows or sends the reply of a slash command.
    pub(super) async fn replied(&mut self, reply: Result<SlashReply, String>) -> Done {
        self.slash = None;
        match reply {
            Ok(SlashReply::Send(text)) if matches!(self.state, State::Idle) => {
                return self.request(&text).await;
            }
            Ok(SlashReply::Send(text)) => {
                self.send(InputEvent::Steer(text.into())).await?;
                output::info("Queued for the next model request.");
            }
            Ok(SlashReply::Show(text)) => output::text(&text).map_err(FollowError::Output)?,
            Err(why) => output::error(&why),
        }
        match self.state {
            State::Idle => self.wait_for_request(),
            _ => self.repeat_question(),
        }
        Ok(())
    }

    /// Shows or deletes remembered facts.
    pub(super) async fn memory(&self, rest: &str) {
        let command = match MemoryCommand::read(rest) {
            Ok(command) => command,
            Err(why) => return output::info(why),
        };
        match command.run(self.remembers, &self.program.names).await {
            Ok(answer) => {
                for fact in answer.facts {
                    output::notice(&format!("{:>5}  {}", fact.id, fact.text));
                }
                answer.notes.iter().for_each(|note| output::info(note));
            }
            Err(why) => output::error(&why.0),
        }
    }

    /// Distils facts from the conversation if the session remembers facts, after a run in progress.
    pub(super) async fn distil(&mut self) -> Done {
        if self.distils {
            return self.request(DISTIL_COMMAND).await;
        }
        output::info(facts::OFF);
        if matches!(self.state, State::Idle) {
            self.wait_for_request();
        }
        Ok(())
    }

    /// Starts a compaction. An event shows its result.
    pub(super) fn compact(&mut self, instructions: &str) {
        self.state = State::Running;
        let handle = self.handle.clone();
        let instructions = Some(instructions.to_owned()).filter(|text| !text.is_empty());
        self.compaction =
            Some(Box::pin(async move { handle.compact(instructions.as_deref()).await }));
    }

    /// Handles the end of a compaction, which may have been a separate run or a part of a run.
    pub(super) async fn compacted(&mut self, done: Compacted, live: &mut Live) -> Done {
        self.compaction = None;
        match done {
            Ok(done) if done.is_empty() => output::info("There is nothing to summarise yet."),
            Ok(_) => {}
            Err(why) => output::error(&format!("{why}.")),
        }
        live.show_arrived(self).await?;
        let is_running = matches!(self.state, State::Running);
        if is_running && !live.awaits_idle() && !self.handle.state().await?.is_running {
            self.wait_for_request();
        }
        Ok(())
    }
}
