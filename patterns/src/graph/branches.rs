//! [`Branches`]: work that a node of a graph does at the same time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loopwright_core::limits::PartBudget;
use loopwright_core::message::{ResultStatus, ToolResult};
use loopwright_core::session::Call;
use loopwright_core::{Ask, Reply, StepContext, StepEnd, StepError};

use super::position::{KEY, branch_key, visit};

/// The branches of a node of a [`Graph`](crate::Graph): one for each value of a list, each with its
/// own request or call. They work at the same time, and the node joins their results.
///
/// A branch is one of two things:
///
/// - a detached request ([`Ask::detached`]), with its own messages, model and output type,
/// - a call ([`Call::new`], [`Call::child`]) of a tool or of a sub-agent. A sub-agent has its own
///   conversation, pattern (another graph, for example), tools and approvals.
///
/// The list follows from the state of the graph. The graph gives each branch a key, in place of its
/// own: after a crash, a decision or a steer, a reply or result that is there is not asked for
/// again; a request that failed is. A request has the conversation unless it
/// [replaces](Ask::messages) it. Calls are [hidden](Call::hidden): the conversation gets what the
/// join returns.
///
/// # Results
///
/// The join sees each branch as a `Result`, in the order of the list. A branch that failed, or for
/// which the budget had no room, is an error there, and the others are kept:
/// [`StepError::Model`] if a model failed, [`StepError::Limit`] if a request did not fit into a
/// budget, and [`StepError::Pattern`] with the text of the result if a call failed, was denied, or
/// reached its share of the budget. The join ends the run with such an error if it returns it.
///
/// # Steers
///
/// A steer that interrupts is delivered, and then the missing requests are sent. Calls that a steer
/// has skipped are made nevertheless; calls that it has cut off have failed.
///
/// ```
/// use loopwright_core::message::UserMessage;
/// use loopwright_core::session::Call;
/// use loopwright_core::testing::{Harness, Script};
/// use loopwright_core::{Ask, StepError};
/// use loopwright_patterns::{Branches, Graph, Next, PiPattern};
///
/// #[derive(Default, serde::Serialize, serde::Deserialize)]
/// struct Reading {
///     notes: Vec<String>,
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// const DOCUMENTS: [&str; 3] = ["The lease ends in May.", "The rent is 900 €.", "No pets."];
/// let read = Branches::new(|_step, _: &Reading| {
///     let ask = |text| Ask::detached().messages([UserMessage::from(text).into()]);
///     DOCUMENTS.map(ask).into()
/// });
/// let graph = Graph::<Reading>::new("read")
///     .branches("read", read.at_most(2), |reading, notes| {
///         reading.notes = notes.into_iter().flatten().map(|note| note.text()).collect();
///         Ok(Some(UserMessage::from(format!("Notes: {}", reading.notes.join(" "))).into()))
///     })
///     .leads_to("read", [Next::To("answer")])
///     .pattern("answer", PiPattern);
/// # let replies = ["May.", "900 €.", "None.", "It ends in May."].map(Script::text);
/// let harness = Harness::new(graph, replies, |agent| agent).await;
/// assert_eq!(harness.handle.prompt("When does it end?").await.unwrap().text, "It ends in May.");
/// # }
/// ```
pub struct Branches<S, B: Branch> {
    pub(super) list: Arc<List<S, B>>,
    budget: Option<PartBudget>,
    terms: Terms<B>,
}

pub(super) type List<S, B> = dyn Fn(&StepContext<'_>, &S) -> Vec<B> + Send + Sync;

/// A kind of branch: [`Ask`] or [`Call`].
pub trait Branch: Work<Output = Self::Result> {
    /// The result of a branch: [`Reply`] or [`ToolResult`].
    type Result;
}

impl Branch for Ask {
    type Result = Reply;
}

impl Branch for Call {
    type Result = ToolResult;
}

impl<S: 'static, B: Branch> Branches<S, B> {
    /// Creates the branches of a list, which must depend only on the state and the request of the
    /// user: after a crash the function is called again, and the results are found by position.
    pub fn new(list: impl Fn(&StepContext<'_>, &S) -> Vec<B> + Send + Sync + 'static) -> Self {
        let terms = Terms { at_most: None, first: false, accepts: None };
        Branches { list: Arc::new(list), budget: None, terms }
    }

    /// Sets the maximum number of branches that work at the same time. The limits of the agent
    /// ([`parallel_requests`](loopwright_core::limits::Limits::parallel_requests),
    /// [`parallel_calls`](loopwright_core::limits::Limits::parallel_calls)) hold as well.
    pub fn at_most(mut self, branches: usize) -> Self {
        self.terms.at_most = Some(branches);
        self
    }

    /// Sets the budget of all branches together, for one request of the user, however often the
    /// node is visited. When it is used up, no more branches start, and the end of its time cuts
    /// off those in progress. Requests use it in the order of the list; sub-agents that start have
    /// equal shares of what is left.
    ///
    /// With [`Budget::keep`](loopwright_core::limits::Budget::keep), they also leave room in the
    /// budget of the run for requests that follow.
    pub fn budget(mut self, budget: impl Into<PartBudget>) -> Self {
        self.budget = Some(budget.into());
        self
    }

    /// Ends with the first branch that succeeds: the others are cancelled or not started, and the
    /// join sees errors in their place. Any reply of a model is a success; see
    /// [`Branches::first_that`].
    pub fn first(mut self) -> Self {
        self.terms.first = true;
        self
    }

    /// Returns a description of the terms, for drawings.
    pub(super) fn describe(&self) -> String {
        let at_most = self.terms.at_most.map(|branches| format!("at most {branches} at once"));
        let first = self.terms.first.then(|| "the first wins".to_owned());
        let terms: Vec<String> =
            ["branches".into()].into_iter().chain(at_most).chain(first).collect();
        terms.join(", ")
    }

    /// Does the work of the branches of this node.
    pub(super) async fn run(
        &self,
        node: &str,
        step: &mut StepContext<'_>,
        state: &S,
    ) -> Result<Vec<Result<B::Output, StepError>>, StepError> {
        let (list, key) = ((self.list)(step, state), branch_key(node, visit(step, node)));
        let key = |at| format!("{key}{at}");
        let list = list.into_iter().enumerate().map(|(at, branch)| branch.keyed(key(at))).collect();
        let Some(PartBudget { budget, kept, .. }) = self.budget else {
            return B::work(step, list, &self.terms).await;
        };
        let rest = step.rest_of(&format!("{KEY}/{node}"), budget)?;
        // Room in the budget of the run is not taken from the branches' own.
        let left = step.left();
        let mut around = step.with_budget(left.keep(kept));
        B::work(&mut around.with_budget(rest), list, &self.terms).await
    }
}

impl<S: 'static> Branches<S, Ask> {
    /// Ends with the first reply for which `accepts` returns `true`, like [`Branches::first`].
    /// Other replies are errors. A call says itself whether it succeeds: by failing.
    pub fn first_that(mut self, accepts: impl Fn(&Reply) -> bool + Send + Sync + 'static) -> Self {
        self.terms.accepts = Some(Box::new(accepts));
        self.first()
    }
}

/// The conditions of the branches.
pub struct Terms<B: Work> {
    at_most: Option<usize>,
    first: bool,
    accepts: Option<Box<Accepts<B::Output>>>,
}

type Accepts<R> = dyn Fn(&R) -> bool + Send + Sync;

/// The work of branches of one kind.
#[async_trait]
pub trait Work: Sized + Send + Sync + 'static {
    type Output: Send + Sync + 'static;

    fn keyed(self, key: String) -> Self;

    async fn work(
        step: &mut StepContext<'_>,
        list: Vec<Self>,
        terms: &Terms<Self>,
    ) -> Result<Vec<Result<Self::Output, StepError>>, StepError>;
}

#[async_trait]
impl Work for Ask {
    type Output = Reply;

    fn keyed(self, key: String) -> Self {
        self.once(key)
    }

    async fn work(
        step: &mut StepContext<'_>,
        list: Vec<Self>,
        terms: &Terms<Self>,
    ) -> Result<Vec<Result<Reply, StepError>>, StepError> {
        let accepts = |reply: &Reply| terms.accepts.as_ref().is_none_or(|accepts| accepts(reply));
        let asked =
            step.ask_all(list).as_many_as_fit().at_most(terms.at_most.unwrap_or(usize::MAX));
        let asked = if terms.first { asked.until(accepts) } else { asked };
        let replies = asked.await?;
        let is_won = terms.first && replies.iter().any(|r| r.message().is_some() && accepts(r));
        if !is_won && replies.iter().any(Reply::interrupted) && step.has_steering() {
            return Err(StepError::Steered);
        }
        let result = |reply: Reply| match () {
            () if reply.interrupted() && is_won => Err(failed("another branch was first")),
            () if reply.interrupted() => Err(failed("the reply is empty")),
            () if reply.message().is_some() && !accepts(&reply) => {
                Err(failed("the reply was not accepted"))
            }
            () => reply.or_end(),
        };
        Ok(replies.into_iter().map(result).collect())
    }
}

#[async_trait]
impl Work for Call {
    type Output = ToolResult;

    fn keyed(self, key: String) -> Self {
        self.key(key).hidden()
    }

    async fn work(
        step: &mut StepContext<'_>,
        list: Vec<Self>,
        terms: &Terms<Self>,
    ) -> Result<Vec<Result<ToolResult, StepError>>, StepError> {
        let has_succeeded = |result: &ToolResult| result.status == ResultStatus::Ok;
        loop {
            // A steer that has skipped calls is delivered before they are made, also after a crash.
            let history = step.history();
            let mut last = history.iter().rev().map_while(|message| message.as_tool_result());
            if step.has_steering() && last.any(is_skipped) {
                step.take_steering().await?;
            }
            let called = step.call_all(list.clone()).as_many_as_fit();
            let called = if terms.first { called.first() } else { called };
            let called = called.at_most(terms.at_most.unwrap_or(usize::MAX));
            let results = called.await?.ok_or(StepEnd::AwaitingAction)?;
            let is_over = terms.first && results.iter().any(has_succeeded)
                || step.left().time == Some(Duration::ZERO);
            if !is_over && step.has_steering() && results.iter().any(is_skipped) {
                continue;
            }
            let result = |result: ToolResult| match has_succeeded(&result) {
                true => Ok(result),
                false => Err(failed(&result.text())),
            };
            return Ok(results.into_iter().map(result).collect());
        }
    }
}

fn is_skipped(result: &ToolResult) -> bool {
    result.status == ResultStatus::Skipped
}

fn failed(why: &str) -> StepError {
    StepError::Pattern(why.into())
}
