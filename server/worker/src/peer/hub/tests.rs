#![allow(clippy::unwrap_used, reason = "a test may panic")]
use std::sync::mpsc::{Sender, channel};

use super::*;
use crate::tests::Fake;

type OfFake = Hub<<Fake as floe_device::Device>::Mapped>;

/// Says what is asked about nodes, and nothing else is asked.
struct Asked(Sender<NodeWish>);

impl PeerReports for Asked {
    fn import(&self, _: Import) {
        panic!("nothing is imported");
    }

    fn dial(&self, _: Dial) {
        panic!("nothing is dialled");
    }

    fn node(&self, wish: NodeWish) {
        let _ = self.0.send(wish);
    }

    fn returned(&self, _: Returned) {
        panic!("nothing is let go");
    }
}

fn asking(asked: Sender<NodeWish>, patience: Duration) -> OfFake {
    Hub::new(7, Some(Box::new(Asked(asked))), Arc::default(), patience, &Budget::default())
}

#[test]
fn a_worker_waits_for_another_with_its_gpu_to_end_and_then_is_another_node() {
    let (asked, wishes) = channel();
    let hub = asking(asked, Duration::from_secs(60));
    std::thread::scope(|scope| {
        let node = scope.spawn(|| hub.node(5, Some(6)));
        for asked in 0..=CROWDED_ASKS {
            let wish = wishes.recv().unwrap();
            assert_eq!((wish.key, wish.job, wish.waits), (5, Some(6), asked < CROWDED_ASKS));
            let name = (!wish.waits).then(|| "a node".to_owned());
            hub.notice(PeerNotice::Node(wish.request, name), None);
        }
        assert_eq!(node.join().unwrap().as_deref(), Some("a node"));
    });
}

#[test]
fn without_a_daemon_and_with_a_silent_one_a_worker_is_a_node_of_its_own() {
    assert_eq!(OfFake::alone(Arc::default(), &Budget::default()).node(5, None), None);
    let (asked, _wishes) = channel();
    assert_eq!(asking(asked, Duration::from_millis(1)).node(5, None), None);
}
