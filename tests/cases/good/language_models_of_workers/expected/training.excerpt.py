# ...


class ChatGRPO(PipelineParts):
    # ...

    def __init__(self, config: ChatGRPOConfig | None = None) -> None:
        config = ChatGRPOConfig() if config is None else config
        self.device = available_device("device", config.device)
        torch.manual_seed(stream(config.seed, "networks"))
        self.config = config
        self.exploring = torch.Generator(self.device).manual_seed(stream(config.seed, "exploration"))
        self.actor_network = policy_model(device=self.device)
        self.actor_network.generator = self.exploring
        self.reference_model = reference_model(device=self.device)
        self.eval_env: EnvBase[Any, Any] = ChatTrain(
            policy=self.actor_network,
            reference=self.reference_model,
            batch_size=[config.evaluate_episodes],
            device=self.device,
        )
        self.policy: nn.Module = self.actor_network
        self.drawing = torch.Generator(self.device).manual_seed(stream(config.seed, "loss"))
        self.loss = GRPOLoss(
            actor_network=self.actor_network.get_new_version(generate=False, input_mode="tokens")
        )
        self.loss.generator = self.drawing
        self.optimizer: torch.optim.Optimizer = AdamW(self.loss.parameters(), lr=config.lr)
        self.shuffling = torch.Generator().manual_seed(stream(config.seed, "minibatches"))

    @cached_property
    def collector(self) -> BaseCollector[Any]:
        """What collects: it is made when it is first asked for, of the parts as they are then."""
        config = self.config
        collector = RayCollector(
            partial(
                ChatTrain,
                policy=self.actor_network,
                reference=self.reference_model,
                batch_size=[config.num_envs // config.workers],
                device=self.device,
            ),
            self.policy,
            num_collectors=config.workers,
            sync=True,
            remote_configs={"num_gpus": config.worker_gpus},
            frames_per_batch=config.num_envs * config.num_steps,
            total_frames=-1,
            update_after_each_batch=True,
            cat_results=0,
        )
        collector.set_seed(stream(config.seed, "env"))
        return collector

    # ...


# ...


def train(
    config: ChatGRPOConfig = ChatGRPOConfig(), *, folder: Path = Path("runs/chat_grpo"), resume: bool = False,
    parts_class: type[ChatGRPO] = ChatGRPO,
) -> ChatGRPO:
    """Train until `total_frames` are over.

    Args:
        config: hyper-parameters.
        folder: where the log, the curve and the checkpoints are kept.
        resume: go on from the last checkpoint in `folder`, if there is one.
        parts_class: makes the parts; a class that extends `ChatGRPO` may put others in their places.

    Raises:
        FileExistsError: if `folder` holds a training, and `resume` is not set.
    """
    parts = parts_class(config)
    with Run(
        folder,
        config,
        parts,
        total_frames=config.total_frames,
        resume=resume,
        keep=2,
        may_change=(
            "evaluate_every",
            "evaluate_episodes",
            "checkpoint_every",
            "device",
            "lr",
            "max_grad_norm",
        ),
    ) as run:
        batches = iter(parts.collector)
        while run.frames < config.total_frames:
            parts.optimizer.param_groups[0]["lr"] = config.lr
            # act
            batch = next(batches)
            run.count(batch)
            run.note("kl_penalty", batch["next", "kl_penalty"].sum(-1).mean())
            # estimate
            with torch.no_grad():
                batch["advantage"] = group_advantage(
                    batch["next", "reward"], groups_of_workers(batch["group"], config.workers)
                )
            # learn
            for minibatch in minibatches(
                batch.select(*parts.stored),
                config.minibatch_size,
                generator=parts.shuffling,
                epochs=config.epochs,
            ):
                run.add(update(parts, minibatch))
            # look
            if run.due("evaluate", config.evaluate_every):
                score = evaluate(
                    parts.eval_env, parts.policy, seed=stream(config.seed, f"evaluate/{run.frames}"),
                    episodes=config.evaluate_episodes,
                )
                run.best = max(run.best, score)
                run.log(evaluation=score)
            if run.due("checkpoint", config.checkpoint_every):
                run.save()
        run.save()
    draw_curve(folder)
    return parts


# ...
