-- Cluster: does what is written here reach replicas?
-- returns nothing
-- to be confirmed by replicas: that is the question
-- needs: base

write_something(key_last())
return false
