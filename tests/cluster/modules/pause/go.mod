module nicrails.test/pause

go 1.26.0
