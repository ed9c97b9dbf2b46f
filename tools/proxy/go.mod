module fairlead/proxy

go 1.26.0
