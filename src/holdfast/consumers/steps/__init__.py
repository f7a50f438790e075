"""Running consumers in the database: what they tell of themselves, the queues they are attached to, seats in pools."""
