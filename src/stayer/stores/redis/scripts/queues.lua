-- Store.queues: settings and counts.
-- ARGV   the rest: names, or nothing for all
-- returns {the queues that each worker listens to (JSON), …}, now, then a queue each: {name, {paused,
--         limit, key_limit, fair, rate, rate_per, tokens, tokens_at, notify}, {key, its limit, …}, eight
--         counts, its oldest task that could be taken, its retention (JSON)}
-- needs: base, queues

return queue_infos({unpack(ARGV, 3)})
