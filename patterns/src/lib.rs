//! Behaviour patterns for loopwright: eighteen loops to use, to copy and to combine.
//!
//! Each loop is one file, except for the construction of a graph and the tool of `Rag`.
//!
//! | pattern | the loop |
//! |---|---|
//! | [`GenericPattern`] | one loop: ask, call tools; every message joins before the next request |
//! | [`PiPattern`] | two loops: tools and steering inside, follow-ups outside |
//! | [`FirstCall`] | the first turn of a request must call a tool |
//! | [`ReAct`] | tools for models without tool calling, as actions in the text |
//! | [`PlanExecute`] | a plan, its first step, a new plan |
//! | [`PlanFirst`] | nothing is changed before the user has accepted a plan |
//! | [`Rag`] | passages are retrieved before the answer, which cites them |
//! | [`Reflect`] | a judge sends answers back until they are good |
//! | [`SelfConsistency`] | several samples at once; the most frequent answer wins |
//! | [`Ensemble`] | several models at once; they vote, or a judge decides |
//! | [`Route`] | a router chooses the role in which a request is answered |
//! | [`Handoff`] | roles hand the conversation over to each other |
//! | [`Orchestrate`] | a request is divided among sub-agents |
//! | [`Graph`] | nodes, [branches](Branches) at the same time, conditional edges, cycles |
//! | [`Goal`] | work until tests or a judge say that the goal is reached |
//! | [`Bounded`] | a budget for another pattern, and an answer when it is used up |
//! | [`Clarify`] | unclear requests are cleared up with the user first |
//! | [`Extract`] | each answer is a value of a Rust type |
//!
//! Most of them wrap another pattern, which does the rest: `Reflect::new("…", PlanExecute::new(
//! PiPattern))` judges the result of a plan. A wrapper has the prompt and the tools of the pattern
//! that it wraps. Plans, judges and observations speak to the model in messages of the user, which
//! front ends show as such.
//!
//! **Do not wrap a pattern in another one of the same type**: both would use the same keys.
//!
//! The module `conformance`, behind the feature of that name, is a test suite for patterns. Every
//! pattern here passes it.

#![cfg_attr(docsrs, feature(doc_cfg))]

/// The README, whose examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

mod bounded;
mod clarify;
#[cfg(feature = "conformance")]
pub mod conformance;
mod ensemble;
mod extract;
mod first_call;
mod generic;
mod goal;
mod graph;
mod handoff;
mod orchestrate;
mod pi;
mod plan_execute;
mod plan_first;
mod rag;
mod react;
mod reflect;
mod route;
mod self_consistency;
mod vote;

pub use bounded::Bounded;
pub use clarify::Clarify;
pub use ensemble::Ensemble;
pub use extract::Extract;
pub use first_call::FirstCall;
pub use generic::GenericPattern;
pub use goal::{Goal, GoalEnd, GoalProgress};
pub use graph::{Branch, Branches, Graph, Next};
pub use handoff::Handoff;
pub use orchestrate::Orchestrate;
pub use pi::PiPattern;
pub use plan_execute::PlanExecute;
pub use plan_first::PlanFirst;
pub use rag::{Rag, search_tool};
pub use react::ReAct;
pub use reflect::Reflect;
pub use route::Route;
pub use self_consistency::SelfConsistency;
