//! [`WakeGate`], which saves polls of a source that is rarely ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tokio::task::coop::has_budget_remaining;

/// A gate in front of a source that a task polls alongside a busier one.
///
/// Without it, each delta of a reply would also poll what waits for commands, mail, deadlines and
/// the loss of the session, which is more code than the delta itself passes through. The source
/// gets a waker of its own. It is polled the first time, after that waker was called, after a poll
/// that was ready or for which the task had no budget left, and when the task has a new waker.
///
/// While a gate is in use, its source is neither polled in another way, which would replace the
/// waker, nor changed so that it is ready without a call of the waker.
#[derive(Default)]
pub(crate) struct WakeGate {
    woken: Option<Arc<Woken>>,
    /// The last poll does not say that the source will call the waker.
    again: bool,
}

struct Woken {
    is_woken: AtomicBool,
    task: Waker,
}

impl WakeGate {
    /// Polls the source if it may be ready.
    pub(crate) fn poll<T>(
        &mut self,
        cx: &Context<'_>,
        source: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let woken = match &self.woken {
            Some(woken) if woken.task.will_wake(cx.waker()) => woken,
            _ => {
                let (is_woken, task) = (AtomicBool::new(true), cx.waker().clone());
                self.woken.insert(Arc::new(Woken { is_woken, task }))
            }
        };
        if !self.again && !woken.is_woken.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        let polled = poll_woken(woken, source);
        // Without budget, tokio calls the waker only when the worker has nothing else to do.
        self.again = polled.is_ready() || !has_budget_remaining();
        polled
    }
}

#[cold]
fn poll_woken<T>(woken: &Arc<Woken>, source: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    // Before the poll, so that a wake-up during the poll is not lost. It is a swap, because a store
    // would not see what happened before the wake-up that it overwrites.
    woken.is_woken.swap(false, Ordering::AcqRel);
    source(&mut Context::from_waker(&Waker::from(woken.clone())))
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.swap(true, Ordering::AcqRel);
        self.task.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::task::noop_waker;
    use tokio::sync::mpsc;
    use tokio::task::coop::consume_budget;

    use super::*;

    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_source_is_polled_when_it_has_woken_its_task_and_not_before() {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let (mut gate, mut polls) = (WakeGate::default(), 0);
        let waker = noop_waker();
        let mut poll = |waker: &Waker| {
            let polled = gate.poll(&Context::from_waker(waker), |cx| {
                polls += 1;
                receiver.poll_recv(cx)
            });
            (polled, polls)
        };
        assert_eq!(poll(&waker), (Poll::Pending, 1));
        assert_eq!(poll(&waker), (Poll::Pending, 1));
        sender.send('a').unwrap();
        sender.send('b').unwrap();
        assert_eq!(poll(&waker), (Poll::Ready(Some('a')), 2));
        assert_eq!(poll(&waker), (Poll::Ready(Some('b')), 3));
        assert_eq!(poll(&waker), (Poll::Pending, 4));
        assert_eq!(poll(&waker), (Poll::Pending, 4));
        let flag = Arc::new(Flag(AtomicBool::new(false)));
        let other = Waker::from(flag.clone());
        assert_eq!(poll(&other), (Poll::Pending, 5));
        assert!(!flag.0.load(Ordering::SeqCst));
        drop(sender);
        assert!(flag.0.load(Ordering::SeqCst), "the task's last waker is called");
        assert_eq!(poll(&other), (Poll::Ready(None), 6));
    }

    #[test]
    fn a_source_that_wakes_its_task_in_a_poll_is_polled_again() {
        let (mut gate, waker) = (WakeGate::default(), noop_waker());
        for polls_left in (0..3).rev() {
            let mut was_polled = false;
            let polled = gate.poll(&Context::from_waker(&waker), |cx| -> Poll<()> {
                was_polled = true;
                if polls_left > 0 {
                    cx.waker().wake_by_ref();
                }
                Poll::Pending
            });
            assert_eq!((polled, was_polled), (Poll::Pending, true));
        }
        let polled = gate.poll(&Context::from_waker(&waker), |_| Poll::Ready(()));
        assert_eq!(polled, Poll::Pending);
    }

    /// A channel that has a message is pending if the task's budget is used up.
    #[tokio::test]
    async fn a_source_without_budget_is_polled_again() {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let mut gate = WakeGate::default();
        poll_fn(|cx| {
            assert_eq!(gate.poll(cx, |cx| receiver.poll_recv(cx)), Poll::Pending);
            sender.send(7).unwrap();
            while has_budget_remaining() {
                let _ = std::pin::pin!(consume_budget()).poll(cx);
            }
            assert_eq!(gate.poll(cx, |cx| receiver.poll_recv(cx)), Poll::Pending);
            let mut polls = 0;
            let _ = gate.poll(cx, |_| -> Poll<()> {
                polls += 1;
                Poll::Pending
            });
            assert_eq!(polls, 1);
            Poll::Ready(())
        })
        .await;
    }
}
