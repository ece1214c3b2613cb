//! A sign of life each second, whatever the executor is at.
//!
//! Who asks the scheduler for work shows by that that he is there. But an executor whose threads are all busy asks every five
//! seconds only (Ballista's pull mode), and a scheduler that waits for that can not miss anybody sooner than in twice the time.
//! So this says it beside the work, by Ballista's own message for executors that are not asked to ask.
//!
//! It registers nobody: a scheduler that does not know the executor refuses the message, and learns of it when it next
//! asks for work. It ends when the executor leaves, so that it does not call it back.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ballista_core::BALLISTA_PROTOCOL_VERSION;
use ballista_core::serde::protobuf::executor_status::Status;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    ExecutorOperatingSystemSpecification, ExecutorRegistration, ExecutorSpecification, ExecutorStatus, HeartBeatParams,
};
use ballista_executor::executor_server::TERMINATING;
use tokio::time::{sleep, timeout};

/// Between two of them.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long the scheduler may take for one.
const PATIENCE: Duration = Duration::from_secs(2);

/// Tells the scheduler at `host:port` that the executor of this name is there, until it leaves.
pub(crate) async fn beat(scheduler: String, executor: String) {
    let mut known = None;
    loop {
        sleep(INTERVAL).await;
        if TERMINATING.load(Ordering::Acquire) {
            return;
        }
        let url = format!("http://{scheduler}");
        // One that does not answer may be another one next time, at the same address.
        known = timeout(PATIENCE, async {
            let mut client = match known.take() {
                Some(client) => client,
                None => SchedulerGrpcClient::connect(url).await.ok()?,
            };
            client.heart_beat_from_executor(alive(&executor)).await.is_ok().then_some(client)
        })
        .await
        .ok()
        .flatten();
    }
}

fn alive(executor: &str) -> HeartBeatParams {
    let registration = ExecutorRegistration {
        id: executor.to_owned(),
        host: Some(String::new()),
        specification: Some(ExecutorSpecification::default()),
        os_info: Some(ExecutorOperatingSystemSpecification::default()),
        ballista_protocol_version: BALLISTA_PROTOCOL_VERSION,
        // At no port can anybody be registered.
        ..ExecutorRegistration::default()
    };
    HeartBeatParams {
        executor_id: executor.to_owned(),
        metrics: Vec::new(),
        status: Some(ExecutorStatus { status: Some(Status::Active(String::new())) }),
        metadata: Some(registration),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use ballista_core::serde::protobuf::PollWorkParams;
    use tokio::runtime::Builder;

    use super::*;
    use crate::Scheduler;
    use crate::client::ready;

    #[test]
    fn who_only_says_that_he_is_there_is_not_taken_for_lost_and_who_falls_silent_is() {
        let scheduler = Scheduler::start("127.0.0.1:0", Scheduler::SILENCE).expect("it listens");
        let (address, silence) = (scheduler.address().to_string(), Duration::from_secs(Scheduler::SILENCE.into()));
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            // It asked for work once, was given much, and has no time to ask again.
            let asks =
                PollWorkParams { metadata: alive("a:1#x").metadata, num_free_vcores: 0, task_status: Vec::new() };
            let mut client = SchedulerGrpcClient::connect(format!("http://{address}")).await.expect("connected");
            client.poll_work(asks).await.expect("registered");
            let beats = tokio::spawn(beat(address.clone(), "a:1#x".to_owned()));
            let begun = Instant::now();
            while begun.elapsed() < silence * 2 {
                ready(&address).await.expect("somebody is there");
                sleep(Duration::from_millis(200)).await;
            }
            beats.abort();
            let begun = Instant::now();
            while ready(&address).await.is_ok() {
                assert!(begun.elapsed() < silence * 3, "it is not missed");
                sleep(Duration::from_millis(200)).await;
            }
            assert!(begun.elapsed() + INTERVAL * 2 > silence, "{:?}", begun.elapsed());
        });
    }
}
